-- Statements that people run on tables of a shop, its events and its sensors, for bench/etl.sh.
-- Each follows a line of its kind and name.  @10@ is a list of ten numbers, @(10)@ has each in brackets.

-- enrichment: orders of 100k ids
SELECT count(*), sum(total), max(status) FROM (SELECT i.id, o.total, o.status FROM wanted_orders i JOIN orders o ON o.id = i.id OFFSET 0) x

-- enrichment: customers of 50k uuids from a CRM
SELECT count(*), sum(id), sum(score) FROM (SELECT c.id, crm.score FROM crm JOIN customers c ON c.external_id = crm.external_id OFFSET 0) x

-- enrichment: customers of 50k uuids those not found kept
SELECT count(*), sum(id), sum(score) FROM (SELECT c.id, crm.score FROM crm LEFT JOIN customers c USING (external_id) OFFSET 0) x

-- enrichment: products by sku
SELECT count(*), sum(price * quantity) FROM deliveries d JOIN products p ON p.sku = d.sku

-- enrichment: sku and category rows returned
SELECT count(*), sum(price), min(name) FROM (SELECT d.quantity, p.price, p.name FROM deliveries d LEFT JOIN products p ON p.sku = d.sku OFFSET 0) x

-- enrichment: items of 20k orders
SELECT count(*), sum(quantity * price) FROM (SELECT i.quantity, i.price FROM recent_orders r JOIN items i ON i.order_id = r.id OFFSET 0) x

-- enrichment: items by order and line
SELECT count(*), sum(i.price - s.price) FROM returned_items s JOIN items i ON i.order_id = s.order_id AND i.line = s.line

-- enrichment: items by order and line with product and customer
SELECT count(*), sum(i.price), sum(p.price), sum(c.country) FROM returned_items s JOIN items i ON i.order_id = s.order_id AND i.line = s.line
	JOIN products p ON p.id = i.product_id JOIN orders o ON o.id = i.order_id JOIN customers c ON c.id = o.customer_id

-- enrichment: rows for ids that another system returned in an array
SELECT count(*), sum(total) FROM orders WHERE id = ANY (ARRAY(SELECT id FROM wanted_orders))

-- enrichment: rows for ids of another type
SELECT count(*), sum(price) FROM products WHERE id = ANY (ARRAY(SELECT product_id::bigint FROM viewed))

-- enrichment: whole rows of the inner table
SELECT count(*), sum((c).country) FROM (SELECT c FROM wanted_customers w JOIN customers c ON c.id = w.id OFFSET 0) x

-- enrichment: a flag for those that are known
SELECT count(*), sum(CASE WHEN known THEN 1 ELSE 0 END) FROM (SELECT w.id, coalesce(c.known, false) AS known FROM wanted_customers w
	LEFT JOIN (SELECT id, true AS known FROM customers) c ON c.id = w.id OFFSET 0) x

-- dedup: new events that we do not have
SELECT count(*), sum(kind) FROM new_events n WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = n.id)

-- dedup: new events that we have
SELECT count(*), sum(kind) FROM new_events n WHERE EXISTS (SELECT 1 FROM events e WHERE e.id = n.id)

-- dedup: by NOT IN
SELECT count(*) FROM new_events WHERE id NOT IN (SELECT id FROM events)

-- dedup: by a left join
SELECT count(*), sum(n.kind) FROM new_events n LEFT JOIN events e ON e.id = n.id WHERE e.id IS NULL

-- dedup: events of the same user kind and time
SELECT count(*) FROM new_events n WHERE EXISTS (SELECT 1 FROM events e WHERE e.user_id = n.user_id AND e.seen = n.seen)

-- dedup: customers with the same mail address
SELECT count(*), sum(c.id) FROM new_customers n JOIN customers c ON c.email = n.email

-- dedup: orders that have at least one item
SELECT count(*) FROM wanted_orders w WHERE w.id IN (SELECT order_id FROM items)

-- reconciliation: amounts that differ
SELECT count(*), sum(o.total - b.amount) FROM bank b JOIN orders o ON o.id = b.order_id WHERE o.total <> b.amount

-- reconciliation: payments without an order
SELECT count(*), sum(amount) FROM bank b WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.id = b.order_id)

-- reconciliation: sums of items against orders
SELECT count(*), sum(total), sum(items_total) FROM (SELECT o.id, o.total, sum(i.quantity * i.price) AS items_total
	FROM recent_orders r JOIN orders o ON o.id = r.id JOIN items i ON i.order_id = o.id GROUP BY o.id, o.total) x

-- reconciliation: orders of wanted customers that are not paid
SELECT count(*), sum(o.total) FROM wanted_customers w JOIN orders o ON o.customer_id = w.id
	WHERE NOT EXISTS (SELECT 1 FROM bank b WHERE b.order_id = o.id)

-- reconciliation: status that both sides have
SELECT o.status, count(*) FROM bank b JOIN orders o ON o.id = b.order_id GROUP BY o.status

-- reconciliation: customers by uuid or by mail address
SELECT count(*) FROM (SELECT c.id FROM crm JOIN customers c USING (external_id) UNION SELECT c.id FROM new_customers n JOIN customers c USING (email)) x

-- star: sales of a category in a country
SELECT count(*), sum(i.quantity * i.price) FROM items i JOIN products p ON p.id = i.product_id JOIN orders o ON o.id = i.order_id
	JOIN customers c ON c.id = o.customer_id WHERE p.category = 7 AND c.country = 3

-- star: sales of one brand by month
SELECT date_trunc('month', o.created), sum(i.quantity) FROM products p JOIN items i ON i.product_id = p.id JOIN orders o ON o.id = i.order_id
	WHERE p.brand = 11 GROUP BY 1

-- star: customers of a segment and what they bought
SELECT c.country, count(*), sum(o.total) FROM segments s JOIN customers c ON c.segment = s.id JOIN orders o ON o.customer_id = c.id
	WHERE s.name = 'segment 17' GROUP BY c.country

-- star: three dimensions over one staging table
SELECT count(*), sum(o.total), sum(p.price), sum(c.country) FROM clicks k JOIN orders o ON o.id = k.order_id JOIN products p ON p.id = k.product_id
	JOIN customers c ON c.id = k.customer_id

-- star: three dimensions grouped by one of them
SELECT p.category, count(*), sum(o.total) FROM clicks k JOIN orders o ON o.id = k.order_id JOIN products p ON p.id = k.product_id GROUP BY p.category

-- star: orders of a day with their items
SELECT count(*), sum(i.price) FROM orders o JOIN items i ON i.order_id = o.id WHERE o.created >= '2024-03-05' AND o.created < '2024-03-06'

-- star: customers of a country whose orders have a product
SELECT count(DISTINCT c.id) FROM customers c JOIN orders o ON o.customer_id = c.id JOIN items i ON i.order_id = o.id WHERE c.segment = 5 AND i.product_id < 5000

-- chain: two left joins
SELECT count(*), sum(o.total), sum(c.country) FROM wanted_orders w LEFT JOIN orders o ON o.id = w.id LEFT JOIN customers c ON c.id = o.customer_id

-- chain: four left joins
SELECT count(*), sum(o.total), sum(c.country), sum(p.price), sum(d.quantity) FROM clicks k LEFT JOIN orders o ON o.id = k.order_id
	LEFT JOIN customers c ON c.id = o.customer_id LEFT JOIN products p ON p.id = k.product_id LEFT JOIN deliveries d ON d.sku = p.sku

-- chain: left joins with expressions
SELECT count(*), sum(total), min(label) FROM (SELECT w.id, coalesce(o.total, 0) AS total, coalesce(c.email, 'none') AS label
	FROM wanted_orders w LEFT JOIN orders o ON o.id = w.id LEFT JOIN customers c ON c.id = o.customer_id OFFSET 0) x

-- chain: a left join whose other side is filtered
SELECT count(*), count(o.id), sum(o.total) FROM wanted_orders w LEFT JOIN orders o ON o.id = w.id AND o.status = 2

-- partitions: readings of sensors at their times
SELECT count(*), sum(m.value) FROM alarms a JOIN readings m ON m.sensor = a.sensor AND m.seen = a.seen

-- partitions: readings of sensors in one month
SELECT count(*), sum(m.value) FROM sensors s JOIN readings m ON m.sensor = s.id WHERE s.room = 12 AND m.seen >= '2024-04-01' AND m.seen < '2024-05-01'

-- partitions: readings of a list of sensors
SELECT count(*), sum(value) FROM readings WHERE sensor = ANY (ARRAY(SELECT id FROM sensors WHERE room < 10)) AND seen >= '2024-02-01' AND seen < '2024-03-01'

-- partitions: alarms without a reading
SELECT count(*) FROM alarms a WHERE NOT EXISTS (SELECT 1 FROM readings m WHERE m.sensor = a.sensor AND m.seen = a.seen)

-- partitions: latest reading of some sensors
SELECT count(*), sum(extract(epoch FROM seen)::bigint) FROM (SELECT sensor, max(seen) AS seen FROM readings WHERE sensor IN (SELECT id FROM sensors WHERE room = 3) GROUP BY sensor) x

-- literals: 10 ids
SELECT count(*), sum(total) FROM orders WHERE id IN (@10@)

-- literals: 100 ids
SELECT count(*), sum(total) FROM orders WHERE id IN (@100@)

-- literals: 1k ids
SELECT count(*), sum(total) FROM orders WHERE id IN (@1000@)

-- literals: 10k ids
SELECT count(*), sum(total) FROM orders WHERE id IN (@10000@)

-- literals: 100k ids
SELECT count(*), sum(total) FROM orders WHERE id IN (@100000@)

-- literals: items of 1k orders
SELECT count(*), sum(price) FROM items WHERE order_id IN (@1000@)

-- literals: 10k rows of VALUES
SELECT count(*), sum(o.total) FROM (VALUES @(10000)@) v (id) JOIN orders o ON o.id = v.id

-- windows: rank of wanted customers' orders
SELECT count(*), sum(total) FROM (SELECT o.total, row_number() OVER (PARTITION BY o.customer_id ORDER BY o.created DESC, o.id) AS n
	FROM wanted_customers w JOIN orders o ON o.customer_id = w.id) x WHERE n = 1

-- windows: running sums of items
SELECT count(*), max(running) FROM (SELECT sum(i.price) OVER (PARTITION BY i.order_id ORDER BY i.line) AS running
	FROM recent_orders r JOIN items i ON i.order_id = r.id) x

-- windows: events before the one that is wanted
SELECT count(*), max(n) FROM (SELECT e.user_id, row_number() OVER (PARTITION BY e.user_id ORDER BY e.seen) AS n FROM wanted_customers w JOIN events e ON e.user_id = w.id) x

-- distinct on: latest order of each wanted customer
SELECT count(*), sum(id) FROM (SELECT DISTINCT ON (o.customer_id) o.id FROM wanted_customers w JOIN orders o ON o.customer_id = w.id
	ORDER BY o.customer_id, o.created DESC, o.id) x

-- distinct on: latest event of each wanted user
SELECT count(*), sum(kind) FROM (SELECT DISTINCT ON (e.user_id) e.kind FROM events e WHERE e.user_id IN (SELECT id FROM wanted_customers)
	ORDER BY e.user_id, e.seen DESC, e.id) x

-- distinct on: one row a key of the staging table
SELECT count(*), sum(total) FROM (SELECT DISTINCT ON (k.order_id) o.total FROM clicks k JOIN orders o ON o.id = k.order_id ORDER BY k.order_id, k.product_id) x
