package arch_test

import (
	"slices"
	"strings"
	"testing"
)

// mayImport is the table of who may import whom: for each folder with a package, the project's folders that its code (not
// its tests) may import. A folder may be listed before it exists.
func mayImport() map[string][]string {
	return map[string][]string{
		"lockkey":                    nil,
		"leader":                     {"lockkey"},
		"leader/leadertest":          {"leader", "lockkey"},
		"worker":                     nil,
		"loop":                       nil,
		"lockwatch":                  {"lockkey"},
		"collector":                  {"lockkey", "lockwatch"},
		"history":                    {"lockkey", "lockwatch"},
		"api":                        {"history", "lockwatch"},
		"alerts":                     nil,
		"dashboards":                 nil,
		"cmd/leader-exporter":        {"cmd/leader-exporter/config", "lockkey", "lockwatch", "collector", "history", "api", "alerts", "internal/cli"},
		"cmd/leader-exporter/config": {"lockkey", "lockwatch"},
		"cmd/plexsphere-demo": {
			"cmd/plexsphere-demo/replica", "cmd/plexsphere-demo/work", "alerts", "deploy/prometheus", "internal/pgserver", "internal/child",
			"internal/cli", "internal/freeport",
		},
		"cmd/plexsphere-demo/replica": {"leader", "worker", "loop", "cmd/plexsphere-demo/work"},
		"cmd/plexsphere-demo/work":    nil,
		"deploy/prometheus":           nil,
		"internal/child":              nil,
		"internal/cli":                nil,
		"internal/demotest":           {"internal/pgserver/pgtest", "internal/syncbuf"},
		"internal/faultproxy":         nil,
		"internal/freeport":           nil,
		"internal/pgserver":           {"internal/child", "internal/freeport"},
		"internal/pgserver/pgtest":    {"internal/pgserver"},
		"internal/pgbouncer":          {"internal/child", "internal/freeport", "internal/pgserver"},
		"internal/golden":             nil,
		"internal/logtest":            nil,
		"internal/arch":               nil,
		"internal/readme":             nil,
		"internal/selfsigned":         nil,
		"internal/syncbuf":            nil,
		"internal/testgrafana":        nil,
	}
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	table := mayImport()
	for _, p := range goList(t, "./...") {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, listed := table[folder]
		if !listed {
			t.Errorf("package %s is not in the table: add it with what it may import", folder)
			continue
		}
		for _, path := range p.Imports {
			imported, ours := strings.CutPrefix(path, module+"/")
			if ours && !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s; the table allows it %q", folder, imported, allowed)
			}
		}
	}
}

// leaderNeeds lists the modules whose packages may be linked into a program that uses package leader: pgx, client_golang,
// and what they need.
func leaderNeeds() []string {
	return []string{
		"github.com/jackc/pgx/v5",
		"github.com/jackc/pgpassfile",
		"github.com/jackc/pgservicefile",
		"github.com/jackc/puddle/v2",
		"golang.org/x/sync",
		"golang.org/x/text",

		"github.com/prometheus/client_golang",
		"github.com/prometheus/client_model",
		"github.com/prometheus/common",
		"github.com/prometheus/procfs",
		"github.com/beorn7/perks",
		"github.com/cespare/xxhash/v2",
		"github.com/munnerz/goautoneg",
		"github.com/pandatix/go-abnf",
		"golang.org/x/sys",
		"google.golang.org/protobuf",
	}
}

func TestLeaderLinksOnlyWhatItNeeds(t *testing.T) {
	needs := leaderNeeds()
	unwanted := []string{"testing", "net/http/pprof", "flag"}
	for _, p := range goList(t, "-deps", "./leader") {
		switch {
		case p.Standard && slices.Contains(unwanted, p.ImportPath):
			t.Errorf("package leader links %s into every program that uses it", p.ImportPath)
		case p.Standard:
		case p.Module == nil:
			t.Errorf("package leader needs %s, which is of no module", p.ImportPath)
		case p.Module.Path == module:
			if folder := strings.TrimPrefix(p.ImportPath, module+"/"); folder != "leader" && folder != "lockkey" {
				t.Errorf("package leader needs %s of this module; want lockkey alone", folder)
			}
		case !slices.Contains(needs, p.Module.Path):
			t.Errorf("package leader needs %s of module %s, which is not on the list", p.ImportPath, p.Module.Path)
		}
	}
}

// ADR 20: dashboards are written when they change, not by a running program.
func TestProgramsLinkNoDashboards(t *testing.T) {
	for _, p := range goList(t, "-deps", "./cmd/...") {
		if p.Module != nil && p.Module.Path == "github.com/grafana/grafana-foundation-sdk/go" {
			t.Errorf("a program links %s", p.ImportPath)
		}
	}
}
