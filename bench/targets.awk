# Says which of the project's targets are reached: awk -f bench/targets.awk
# bench/targets.csv FIGURES.csv...
#
# If several files have the same figure, the last one counts.  Kinds of targets:
# "share", at most this share of the other system's figure; "times", at least this many
# times as good as the other system; "at most" and "at least", limits of the figure
# itself.

BEGIN {
	FS = ","
	print "| | target | reached | | command |\n| --- | --- | --- | --- | --- |"
}

FNR == 1 { is_target = $1 == "what"; is_record = $1 == "suite"; next }
is_target { target[++n] = $0 }
is_record { value[$1, $2, $3, $4, $6] = $5 }

END {
	for (i = 1; i <= n; i++) {
		split(target[i], t, FS)
		our = t[4] SUBSEP t[5] SUBSEP t[6] SUBSEP t[8] SUBSEP t[7]
		their = t[4] SUBSEP t[5] SUBSEP t[6] SUBSEP t[9] SUBSEP t[7]
		at_least = t[2] == "times" || t[2] == "at least"
		verdict = ""
		if (!(our in value) || (t[9] != "" && !(their in value)))
			reached = "not measured"
		else if (value[our] <= 0 || (t[9] != "" && value[their] <= 0))
			reached = "too little to tell"
		else {
			reached = value[our]
			if (t[9] != "")
				reached = reached / value[their]
			if (t[2] == "times" && t[7] !~ /\/s$/)
				reached = 1 / reached
			verdict = (at_least ? reached >= t[3] : reached <= t[3]) ? "reached" : "missed"
			reached = sprintf("%.3g", reached)
		}
		printf "| %s | %s %s%s | %s | %s | `%s` |\n", t[1], (at_least ? "at least" : "at most"), t[3],
			(t[2] == "share" ? " of " t[9] : t[2] == "times" ? " times as good as " t[9] : " " t[7]),
			reached, verdict, t[10]
	}
}
