package dashboards_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// files are what ships.
func files() []string { return []string{"fleet.json", "deployment.json"} }

// board is what the tests read of a dashboard.
type board struct {
	file          string
	UID           string  `json:"uid"`
	ID            *int64  `json:"id"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []annotation `json:"list"`
	} `json:"annotations"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct{ X, Y, W, H int }
	Targets     []target `json:"targets"`
	FieldConfig struct {
		Defaults  field `json:"defaults"`
		Overrides []struct {
			Matcher struct {
				ID      string `json:"id"`
				Options string `json:"options"`
			} `json:"matcher"`
			Properties []struct {
				ID    string          `json:"id"`
				Value json.RawMessage `json:"value"`
			} `json:"properties"`
		} `json:"overrides"`
	} `json:"fieldConfig"`
	Transformations []struct {
		ID      string `json:"id"`
		Options struct {
			RenameByName  map[string]string `json:"renameByName"`
			ExcludeByName map[string]bool   `json:"excludeByName"`
		} `json:"options"`
	} `json:"transformations"`
}

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Format       string `json:"format"`
	Instant      bool   `json:"instant"`
	Range        bool   `json:"range"`
}

type field struct {
	Unit       string    `json:"unit"`
	NoValue    string    `json:"noValue"`
	Mappings   []mapping `json:"mappings"`
	Thresholds struct {
		Steps []step `json:"steps"`
	} `json:"thresholds"`
}

type step struct {
	Value *float64 `json:"value"`
	Color string   `json:"color"`
}

type mapping struct {
	Type    string          `json:"type"`
	Options json.RawMessage `json:"options"`
}

type variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Query      string `json:"query"`
	Multi      bool   `json:"multi"`
	IncludeAll bool   `json:"includeAll"`
	Current    struct {
		Value string `json:"value"`
	} `json:"current"`
	AllValue string `json:"allValue"`
}

type annotation struct {
	Name string `json:"name"`
	Expr string `json:"expr"`
}

// boards reads the files that ship.
func boards(tb testing.TB) []board {
	tb.Helper()
	var all []board
	for _, name := range files() {
		content, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		b := board{file: name}
		if err := json.Unmarshal(content, &b); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		all = append(all, b)
	}
	return all
}

// charts are the panels without the rows.
func (b board) charts() []panel {
	var charts []panel
	for _, p := range b.Panels {
		if p.Type != "row" {
			charts = append(charts, p)
		}
	}
	return charts
}

// question is one query, wherever in a dashboard it is asked.
type question struct {
	where   string // file, panel or annotation, query
	expr    string
	instant bool
}

// questions are all queries of panels and annotations.
func questions(tb testing.TB) []question {
	tb.Helper()
	var all []question
	for _, b := range boards(tb) {
		for _, p := range b.charts() {
			for _, t := range p.Targets {
				all = append(all, question{b.file + ": " + p.Title + ": " + t.RefID, t.Expr, t.Instant})
			}
		}
		for _, a := range b.Annotations.List {
			all = append(all, question{b.file + ": " + a.Name, a.Expr, false})
		}
	}
	return all
}

// fill puts values in the place of the variables, as Grafana does.
func fill(expr string, values map[string]string) string {
	pairs := make([]string, 0, 2*len(values))
	for variable, value := range values {
		pairs = append(pairs, variable, value)
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

// usual are the values of an hour's view of one deployment, scraped every 15 seconds.
func usual() map[string]string {
	return map[string]string{
		"${deployment:regex}": "demo", "${lock:regex}": "background-leader", "${check_interval}": "5",
		"$__rate_interval": "1m", "$__range": "1h",
	}
}
