package dashboards

import (
	"strconv"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	red    = "red"
	green  = "green"
	blue   = "blue"
	orange = "orange"
	grey   = "#8e8e8e" // what is not known; no name of Grafana's is grey
)

// state is what values from a number on mean, up to the next state, in words and in colour. Without words the number itself is shown.
type state struct {
	from  float64
	text  string
	color string
}

// leaders are the states of a number of leaders; the two below 0 are those of verdict.
func leaders() []state {
	return []state{
		{-2, "1 leader without the lock", red},
		{-1, "lock held, nobody claims", red},
		{0, "no leader", red},
		{1, "1 leader", green},
		{2, "2 leaders", red},
		{3, "3 leaders", red},
		{4, "more than 3 leaders", red},
	}
}

// replicaRole is what one replica says of itself.
func replicaRole() []state { return []state{{0, "standby", blue}, {1, "leader", green}} }

func lockState() []state { return []state{{0, "free", red}, {1, "held", green}} }

func holderState() []state { return []state{{1, "holds the lock", green}} }

func upState() []state { return []state{{0, "down", red}, {1, "up", green}} }

func serverRole() []state { return []state{{0, "primary", green}, {1, "hot standby", red}} }

func alertState() []state { return []state{{0, "quiet", green}, {1, "firing", red}} }

func visibleState() []state { return []state{{0, "no", orange}, {1, "yes", green}} }

func foreignState() []state {
	return []state{{-1, "not checked", grey}, {0, "no", green}, {1, "yes", red}}
}

// countOf is for numbers that should be 0.
func countOf(color string) []state { return []state{{0, "", green}, {1, "", color}} }

// plainCount is for numbers that are neither good nor bad.
func plainCount() []state { return []state{{0, "", "text"}} }

// mappings give each state its words, and a value that is missing those of unknown.
func mappings(states []state, unknown string) []dashboard.ValueMapping {
	words := dashboard.NewValueMap()
	var out []dashboard.ValueMapping
	for i, s := range states {
		result := dashboard.ValueMappingResult{Text: &s.text, Color: &s.color, Index: new(int32(i))}
		last := i == len(states)-1
		switch {
		case s.text == "": // the number, in the colour of the threshold
		case last:
			out = append(out, dashboard.ValueMapping{RangeMap: &dashboard.RangeMap{
				Type: dashboard.MappingTypeRangeToText, Options: dashboard.DashboardRangeMapOptions{From: new(s.from), Result: result},
			}})
		default:
			words.Options[strconv.FormatFloat(s.from, 'f', -1, 64)] = result
		}
	}
	if len(words.Options) > 0 {
		out = append([]dashboard.ValueMapping{{ValueMap: words}}, out...)
	}
	special := dashboard.NewSpecialValueMap()
	special.Options.Match = dashboard.SpecialValueMatchNullAndNan
	special.Options.Result = dashboard.ValueMappingResult{Text: &unknown, Color: new(grey), Index: new(int32(len(states)))}
	return append(out, dashboard.ValueMapping{SpecialValueMap: special})
}

// thresholds give each state its colour; below the first, and without a value, it is that of the unknown.
func thresholds(states []state) cog.Builder[dashboard.ThresholdsConfig] {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps(states))
}

func steps(states []state) []dashboard.Threshold {
	steps := []dashboard.Threshold{{Value: nil, Color: grey}}
	for _, s := range states {
		steps = append(steps, dashboard.Threshold{Value: new(s.from), Color: s.color})
	}
	return steps
}
