package dashboards_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// walk visits every object of the JSON of a file.
func walk(tb testing.TB, name string, visit func(path string, object map[string]any)) {
	tb.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(content, &tree); err != nil {
		tb.Fatal(err)
	}
	var descend func(path string, node any)
	descend = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			visit(path, node)
			for key, value := range node {
				descend(path+"."+key, value)
			}
		case []any:
			for i, value := range node {
				descend(fmt.Sprintf("%s[%d]", path, i), value)
			}
		}
	}
	descend(name, tree)
}

// The cases D63 and D68: no data source is named, none is missing.
func TestEveryDataSourceIsTheChosenOne(t *testing.T) {
	for _, name := range files() {
		found := 0
		walk(t, name, func(path string, object map[string]any) {
			if _, bad := object["__inputs"]; bad {
				t.Errorf("%s has __inputs", path)
			}
			needs := object["expr"] != nil || object["targets"] != nil || object["type"] == "query"
			source, has := object["datasource"]
			if !has && !needs {
				return
			}
			found++
			ref, _ := source.(map[string]any)
			if ref["uid"] != "${datasource}" || ref["type"] != "prometheus" {
				t.Errorf("%s has the data source %v", path, source)
			}
		})
		if found < 10 {
			t.Errorf("%s: only %d data sources found", name, found)
		}
	}
}

// The case D64, and what else would be right for one range or one scrape interval only.
func TestRangesFollowTheView(t *testing.T) {
	window := regexp.MustCompile(`\[([^\]]*)\]`)
	for _, q := range questions(t) {
		for _, match := range window.FindAllStringSubmatch(q.expr, -1) {
			want := "$__rate_interval"
			if q.instant {
				want = "$__range"
			}
			if match[1] != want {
				t.Errorf("%s looks back over %s, not %s", q.where, match[0], want)
			}
		}
	}
}

// The case D65, and its kind: a variable in any place but a regular expression, or unescaped, selects what was not meant.
func TestVariablesAreMatchedAsRegularExpressions(t *testing.T) {
	variable := regexp.MustCompile(`.{0,14}\$(?:\{[^}]*\}|\w+)`)
	matcher := regexp.MustCompile("(deployment|lock)=~`\\$\\{(deployment|lock):regex\\}$")
	check := func(where, text string) {
		for _, use := range variable.FindAllString(text, -1) {
			escaped := false
			if names := matcher.FindStringSubmatch(use); len(names) == 3 {
				escaped = names[1] == names[2]
			}
			allowed := strings.HasSuffix(use, "[$__rate_interval") || strings.HasSuffix(use, "[$__range") || strings.HasSuffix(use, "vector(4 * ${check_interval}")
			if !allowed && !escaped {
				t.Errorf("%s uses a variable in %q", where, use)
			}
		}
	}
	for _, q := range questions(t) {
		check(q.where, q.expr)
	}
	for _, b := range boards(t) {
		for _, v := range b.Templating.List {
			check(b.file+": "+v.Name, v.Query)
		}
	}
}

// Every metric is asked for by deployment, and every metric of a lock by lock: else a panel would show the neighbour's.
func TestEverySelectorNamesDeploymentAndLock(t *testing.T) {
	for _, q := range questions(t) {
		for _, s := range selectors(t, q) {
			if !strings.Contains(s.matchers, "deployment=~`${deployment:regex}`") {
				t.Errorf("%s asks for %s of all deployments", q.where, s.metric)
			}
			ofLock := strings.HasPrefix(s.metric, "leader_lock_") && s.metric != "leader_lock_up" && s.metric != "leader_lock_database_in_recovery"
			if ofLock != strings.Contains(s.matchers, "lock=~`${lock:regex}`") {
				t.Errorf("%s asks for %s{%s}: of the lock is %v", q.where, s.metric, s.matchers, ofLock)
			}
		}
	}
}

// The case D67.
func TestPanelsAreOfKindsThatGrafanaStillHas(t *testing.T) {
	kinds := []string{"row", "stat", "table", "timeseries", "state-timeline", "heatmap"}
	for _, b := range boards(t) {
		for _, p := range b.Panels {
			if !slices.Contains(kinds, p.Type) {
				t.Errorf("%s: %s is a %s", b.file, p.Title, p.Type)
			}
		}
	}
}

// The cases D68 and D69.
func TestDashboardsCanBeImportedTwice(t *testing.T) {
	uids := map[string]bool{}
	for _, b := range boards(t) {
		if b.ID != nil || b.UID == "" || uids[b.UID] || b.SchemaVersion < 39 {
			t.Errorf("%s: id %v, uid %q, schemaVersion %d", b.file, b.ID, b.UID, b.SchemaVersion)
		}
		uids[b.UID] = true
	}
	if !uids["plexsphere-leader-fleet"] || !uids["plexsphere-leader-deployment"] {
		t.Errorf("uids %v: bookmarks point at others", uids)
	}
}

func TestPanelsSayWhatTheyShow(t *testing.T) {
	for _, b := range boards(t) {
		titles := map[string]bool{}
		for _, p := range b.charts() {
			d := p.FieldConfig.Defaults
			if len(p.Targets) == 0 || p.Title == "" || titles[p.Title] || len(p.Description) < 20 || d.Unit == "" || d.NoValue == "" {
				t.Errorf("%s: %q: %d queries, description %q, unit %q, no value %q; or the title is there twice", b.file, p.Title, len(p.Targets), p.Description, d.Unit, d.NoValue)
			}
			titles[p.Title] = true
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if refs[q.RefID] || q.Instant == q.Range || (q.LegendFormat == "") != (p.Type == "table") {
					t.Errorf("%s: %s: query %s: instant %v, range %v, legend %q; or the refId is there twice", b.file, p.Title, q.RefID, q.Instant, q.Range, q.LegendFormat)
				}
				refs[q.RefID] = true
			}
		}
	}
}

func TestPanelsStandBesideEachOther(t *testing.T) {
	for _, b := range boards(t) {
		ids, cells := map[int]bool{}, map[[2]int]string{}
		bottom := 0
		for _, p := range b.Panels {
			g := p.GridPos
			if ids[p.ID] || p.ID == 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 || g.Y < 0 {
				t.Errorf("%s: %s: id %d, at %+v", b.file, p.Title, p.ID, g)
			}
			ids[p.ID] = true
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := cells[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %s stands on %s", b.file, p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			bottom = max(bottom, g.Y+g.H)
		}
		if len(cells) != 24*bottom {
			t.Errorf("%s: %d of %d cells are empty", b.file, 24*bottom-len(cells), 24*bottom)
		}
	}
}

func TestNoTwoPanelsAskTheSame(t *testing.T) {
	for _, name := range files() {
		asked := map[string]string{}
		for _, q := range questions(t) {
			if !strings.HasPrefix(q.where, name) {
				continue
			}
			expr := strings.Join(strings.Fields(q.expr), " ")
			if other := asked[expr]; other != "" {
				t.Errorf("%s asks what %s asks: %s", q.where, other, expr)
			}
			asked[expr] = q.where
		}
	}
}
