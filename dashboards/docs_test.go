package dashboards_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// firstColumn returns the first cells of the table under a heading of docs/dashboards.md.
func firstColumn(t *testing.T, heading string) []string {
	t.Helper()
	content, err := os.ReadFile("../docs/dashboards.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/dashboards.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var cells []string
	for _, match := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(section, -1) {
		cells = append(cells, strings.Trim(match[1], "` "))
	}
	if len(cells) == 0 {
		t.Fatalf("docs/dashboards.md has no table under %q", heading)
	}
	return cells[1:]
}

func TestDocumentListsEveryPanelInOrder(t *testing.T) {
	for i, heading := range []string{"Background leaders", "Background leader of a deployment"} {
		var titles []string
		for _, p := range boards(t)[i].charts() {
			titles = append(titles, p.Title)
		}
		if listed := firstColumn(t, heading); !slices.Equal(listed, titles) {
			t.Errorf("docs/dashboards.md lists under %q\n%q, the panels are\n%q", heading, listed, titles)
		}
	}
}

func TestDocumentListsEveryVariable(t *testing.T) {
	listed := firstColumn(t, "Variables")
	var names []string
	for _, v := range boards(t)[1].Templating.List {
		names = append(names, v.Name)
	}
	if !slices.Equal(listed, names) {
		t.Errorf("docs/dashboards.md lists the variables %q; they are %q", listed, names)
	}
}

// Links between the two dashboards, and from the document to the files.
func TestLinksLeadSomewhere(t *testing.T) {
	all := boards(t)
	for i, b := range all {
		content, err := os.ReadFile(b.file)
		if err != nil {
			t.Fatal(err)
		}
		links := regexp.MustCompile(`"url": "/d/([^?"]+)`).FindAllStringSubmatch(string(content), -1)
		if len(links) != 1 || links[0][1] != all[1-i].UID {
			t.Errorf("%s links to %q; want %s once", b.file, links, all[1-i].UID)
		}
	}
	content, err := os.ReadFile("../docs/dashboards.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(content), -1) {
		if _, err := os.Stat("../docs/" + match[1]); err != nil {
			t.Errorf("docs/dashboards.md links to %s: %v", match[1], err)
		}
	}
}

// What is provisioned is of the kinds that the dashboards ask for, and its folder is the one that the document fills.
func TestProvisioningFitsTheDashboards(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Type, UID, URL string
			JSONData       map[string]string `yaml:"jsonData"`
		}
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Type    string
			Options map[string]string
		}
	}
	for path, into := range map[string]any{"datasources/prometheus.yaml": &sources, "dashboards/leader-exporter.yaml": &providers} {
		content, err := os.ReadFile("../deploy/grafana/provisioning/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if sources.APIVersion != 1 || len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].JSONData["timeInterval"] == "" {
		t.Errorf("data sources %+v", sources)
	}
	if providers.APIVersion != 1 || len(providers.Providers) != 1 || providers.Providers[0].Type != "file" {
		t.Fatalf("providers %+v", providers)
	}
	content, err := os.ReadFile("../docs/dashboards.md")
	if err != nil {
		t.Fatal(err)
	}
	if path := providers.Providers[0].Options["path"]; path == "" || !strings.Contains(string(content), "cp dashboards/*.json "+path+"/\n") {
		t.Errorf("the provider reads %q, which docs/dashboards.md does not fill", path)
	}
}

// "cp dashboards/*.json" copies dashboards and nothing else.
func TestFolderHasNoOtherJSON(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		content, _ := os.ReadFile(entry.Name())
		if strings.HasSuffix(entry.Name(), ".json") && json.Valid(content) {
			found = append(found, entry.Name())
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{"deployment.json", "fleet.json"}) {
		t.Errorf("JSON files %q", found)
	}
}
