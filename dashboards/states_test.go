package dashboards_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
)

// shown is what Grafana makes of a value.
type shown struct{ Text, Color string }

// show is what Grafana does with mappings and thresholds: the first mapping that matches gives text and colour, and the highest threshold that is not
// above the value gives the colour where no mapping does. NaN stands for a missing value too.
func (f field) show(tb testing.TB, value float64) shown {
	tb.Helper()
	for _, m := range f.Mappings {
		var byValue map[string]shown
		var options struct {
			Match    string
			From, To *float64
			Result   shown
		}
		into := any(&options)
		if m.Type == "value" {
			into = &byValue
		}
		if err := json.Unmarshal(m.Options, into); err != nil {
			tb.Fatal(err)
		}
		switch m.Type {
		case "value":
			if r, ok := byValue[strconv.FormatFloat(value, 'f', -1, 64)]; ok {
				return r
			}
		case "range":
			if value >= *options.From && options.To == nil {
				return options.Result
			}
		case "special":
			if math.IsNaN(value) && options.Match == "null+nan" {
				return options.Result
			}
		default:
			tb.Errorf("a mapping of type %s", m.Type)
		}
	}
	s := shown{Text: strconv.FormatFloat(value, 'f', -1, 64)}
	for _, step := range f.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			s.Color = step.Color
		}
	}
	return s
}

// byThresholds is what is shown where a reader of the JSON knows thresholds only.
func (f field) byThresholds(value float64) string {
	color := ""
	for _, step := range f.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			color = step.Color
		}
	}
	return color
}

// column returns the settings of a column of a table.
func (p panel) column(tb testing.TB, title string) field {
	tb.Helper()
	var f field
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID != "byName" || o.Matcher.Options != title {
			continue
		}
		for _, property := range o.Properties {
			var into any
			switch property.ID {
			case "unit":
				into = &f.Unit
			case "noValue":
				into = &f.NoValue
			case "mappings":
				into = &f.Mappings
			case "thresholds":
				into = &f.Thresholds
			default:
				continue
			}
			if err := json.Unmarshal(property.Value, into); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return f
}

// columns returns those of a table that show values.
func (p panel) columns(tb testing.TB) map[string]field {
	tb.Helper()
	all := map[string]field{}
	for _, transformation := range p.Transformations {
		for name, title := range transformation.Options.RenameByName {
			if len(name) > 7 && name[:7] == "Value #" {
				all[title] = p.column(tb, title)
			}
		}
	}
	return all
}

const grey = "#8e8e8e"

func TestNumberOfLeadersIsGreenForOneAlone(t *testing.T) {
	all := boards(t)
	fields := map[string]field{}
	for _, b := range all {
		for _, p := range b.charts() {
			if p.Title == "Leaders now" {
				fields[p.Title] = p.FieldConfig.Defaults
			}
			if column, ok := p.columns(t)["Leaders"]; ok {
				fields["Leaders"] = column
			}
		}
	}
	if len(fields) != 2 {
		t.Fatalf("these show the number of leaders: %v", fields)
	}
	for name, f := range fields {
		for value, want := range map[float64]shown{
			0: {"no leader", "red"}, 1: {"1 leader", "green"}, 2: {"2 leaders", "red"}, 3: {"3 leaders", "red"}, 17: {"more than 3 leaders", "red"},
			-1: {"lock held, nobody claims", "red"}, -2: {"1 leader without the lock", "red"},
		} {
			if got := f.show(t, value); got != want || f.byThresholds(value) != want.Color {
				t.Errorf("%s shows %v as %q, by thresholds %s; want %q", name, value, got, f.byThresholds(value), want)
			}
		}
		if got := f.show(t, math.NaN()); got != (shown{"unknown", grey}) || f.NoValue != "unknown" || f.byThresholds(math.Inf(-1)) != grey {
			t.Errorf("%s shows a missing value as %q, and none as %q", name, got, f.NoValue)
		}
	}
}

// Whoever cannot tell red from green reads the word; where there is none, the number is the word.
func TestColourOnlyRepeatsAWordOrANumber(t *testing.T) {
	for _, b := range boards(t) {
		for _, p := range b.charts() {
			fields := p.columns(t)
			fields[""] = p.FieldConfig.Defaults
			for column, f := range fields {
				words := map[string]string{}
				for _, step := range f.Thresholds.Steps {
					if step.Value == nil {
						if step.Color != grey {
							t.Errorf("%s: %s %s: what is below every state is %s", b.file, p.Title, column, step.Color)
						}
						continue
					}
					s := f.show(t, *step.Value)
					if color, taken := words[s.Text]; s.Text == "" || taken && color != s.Color {
						t.Errorf("%s: %s %s: the value %v shows as %q", b.file, p.Title, column, *step.Value, s)
					}
					words[s.Text] = s.Color
					if s.Color != step.Color {
						t.Errorf("%s: %s %s: %v is %s by mapping and %s by threshold", b.file, p.Title, column, *step.Value, s.Color, step.Color)
					}
				}
				if f.NoValue == "" || f.Unit == "" {
					t.Errorf("%s: %s %s: unit %q, no value %q", b.file, p.Title, column, f.Unit, f.NoValue)
				}
				if len(f.Thresholds.Steps) == 0 {
					continue
				}
				if got := f.show(t, math.NaN()); got.Text != f.NoValue || got.Color != grey {
					t.Errorf("%s: %s %s: a missing value shows as %q, and none as %q", b.file, p.Title, column, got, f.NoValue)
				}
			}
		}
	}
}

// A stat shows its last value, not the last that it had: what has gone is not known.
func TestStatsDoNotShowWhatHasGone(t *testing.T) {
	for _, name := range files() {
		walk(t, name, func(path string, object map[string]any) {
			calcs, ok := object["reduceOptions"].(map[string]any)
			if !ok {
				return
			}
			if list, _ := calcs["calcs"].([]any); len(list) != 1 || list[0] != "last" {
				t.Errorf("%s reduces by %v", path, calcs["calcs"])
			}
		})
	}
}
