# Makes Markdown tables of measurements: awk -f bench/tables.awk FILE.csv...
#
# There is one table for each section of a suite, with a row for each case and unit and
# a column for each system.  Further columns say how many times as good our systems are
# as PostgreSQL's.  A value above 1 is in our favour, for times and sizes as well as for
# rates.

BEGIN {
	FS = ","
	split("btree,hash,best plan,DuckDB,before", theirs, ",")
	split("harmonia,GPU", ours, ",")
	split("none,plain scan,btree,hash,best plan,DuckDB,before,harmonia,GPU", order, ",")
	for (i in order)
		is_known[order[i]]
}

FNR == 1 { is_record = $1 == "suite" }
FNR == 1 || !is_record { next }

{
	section = $1 FS $2
	row = section FS $3 FS $6
	if (!(section in rows))
		sections[++n_sections] = section
	if (!((section, $4) in has))
		systems[section, ++n_systems[section]] = $4
	has[section, $4]
	if (!(row in known))
		cases[section, ++rows[section]] = row
	known[row]
	value[row, $4] = $5
	remark[row, $4] = $8
	if ($7 + 0 > runs[section] + 0)
		runs[section] = $7
}

function cell(row, who) {
	if (!((row, who) in value))
		return ""
	return sprintf("%.4g", value[row, who]) (remark[row, who] == "" ? "" : " (" remark[row, who] ")")
}

function times_as_good(row, our, their,   a, b) {
	if (!((row, our) in value) || !((row, their) in value))
		return ""
	a = value[row, our]
	b = value[row, their]
	if (a <= 0 || b <= 0)
		return ""
	return sprintf("%.2f", row ~ /\/s$/ ? a / b : b / a)
}

function column(text) {
	line = line " " text " |"
	rule = rule " --- |"
}

# Sets columns[] to a section's systems, known ones first.  Returns their number.
function in_order(section,   i, n) {
	for (i = 1; i in order; i++)
		if ((section, order[i]) in has)
			columns[++n] = order[i]
	for (i = 1; i <= n_systems[section]; i++)
		if (!(systems[section, i] in is_known))
			columns[++n] = systems[section, i]
	return n
}

# Adds the columns of ratios: their heads, or a row's values.
function ratios(section, row,   i, j) {
	for (i = 1; i in ours; i++)
		for (j = 1; j in theirs; j++)
			if ((section, ours[i]) in has && (section, theirs[j]) in has)
				column(row == "" ? ours[i] ", times as good as " theirs[j] : times_as_good(row, ours[i], theirs[j]))
	if ((section, "GPU") in has && (section, "harmonia") in has)
		column(row == "" ? "GPU, times as good as harmonia on the CPU" : times_as_good(row, "GPU", "harmonia"))
}

END {
	for (s = 1; s <= n_sections; s++) {
		section = sections[s]
		split(section, name, FS)
		printf "\n### %s: %s\n\nMedians of %d.\n\n", name[1], name[2], runs[section]
		n = in_order(section)
		line = rule = "|"
		column("")
		for (i = 1; i <= n; i++)
			column(columns[i])
		ratios(section, "")
		print line "\n" rule
		for (r = 1; r <= rows[section]; r++) {
			row = cases[section, r]
			split(row, name, FS)
			line = "|"
			column(name[3] ", " name[4])
			for (i = 1; i <= n; i++)
				column(cell(row, columns[i]))
			ratios(section, row)
			print line
		}
	}
}
