package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// samples are the values of one measurement, one a round.
type samples []float64

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// String is the median and the spread.
func (s samples) String() string {
	if len(s) == 0 {
		return ""
	}
	if len(s) == 1 {
		return number(s[0])
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.median()), number(slices.Min(s)), number(slices.Max(s)))
}

// number has three digits that count.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// row is one line of the table: ours, and the alternative beside it unless there is none.
type row struct {
	what, unit  string
	ours        samples
	alternative string
	theirs      samples
	atMost      float64 // the greatest ratio of the medians that is aimed at; 0 for none
	limit       float64 // the greatest value that is aimed at, in units; 0 for none
}

func (r row) ratio() float64 { return r.ours.median() / r.theirs.median() }

// verdict is the target and whether it was met.
func (r row) verdict() (target, met string) {
	judge := func(value, most float64) string {
		if value <= most {
			return "yes"
		}
		return "**no**"
	}
	switch {
	case r.limit > 0:
		return "at most " + number(r.limit) + " " + r.unit, judge(r.ours.median(), r.limit)
	case r.atMost > 0:
		return "ratio at most " + number(r.atMost), judge(r.ratio(), r.atMost)
	}
	return "", ""
}

// line is the row as Markdown.
func (r row) line() string {
	ratio := ""
	if len(r.theirs) > 0 && r.theirs.median() > 0 {
		ratio = number(r.ratio())
	}
	target, met := r.verdict()
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", r.what, r.unit, r.ours, r.alternative, r.theirs, ratio, target, met)
}

func markdown(rows []row) string {
	var text strings.Builder
	text.WriteString("| measured | unit | ours: median (spread) | beside | median (spread) | ratio | target | met |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		text.WriteString(r.line() + "\n")
	}
	return text.String()
}

const (
	tableBegins = "<!-- what make bench printed begins here -->\n"
	tableEnds   = "<!-- and ends here -->\n"
)

// replaceTable replaces what is between the two marks in the file.
func replaceTable(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ended := strings.Cut(rest, tableEnds)
	if !ok || !ended {
		return errors.New(file + " has no lines that mark where the table is")
	}
	return os.WriteFile(file, []byte(before+tableBegins+table+tableEnds+after), 0o644)
}
