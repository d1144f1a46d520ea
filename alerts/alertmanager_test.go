package alerts_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"gopkg.in/yaml.v3"
)

const exampleConfig = "alertmanager.example.yml"

func TestAmtoolFindsNothingWrongWithTheExample(t *testing.T) {
	t.Parallel()
	if out, err := command(t, "amtool", "check-config", exampleConfig); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestExampleRoutesEachAlertByItsSeverity(t *testing.T) {
	t.Parallel()
	receivers := map[string]string{"critical": "pager", "warning": "tickets"}
	pages := []string{}
	for _, rule := range shippedRules(t) {
		receiver := receivers[rule.Labels["severity"]]
		if receiver == "pager" {
			pages = append(pages, rule.Alert)
		}
		out, err := command(t, "amtool", "config", "routes", "test", "--config.file="+exampleConfig, "--verify.receivers="+receiver,
			"alertname="+rule.Alert, "deployment=prod", "severity="+rule.Labels["severity"])
		if err != nil {
			t.Errorf("%s: %v\n%s", rule.Alert, err, out)
		}
	}
	want := []string{
		"BackgroundLeaderMissing", "BackgroundLeaderMultiple", "BackgroundLeaderUnclaimed", "BackgroundLeaderPhantom",
		"BackgroundLeaderMetricsAbsent", "LeaderExporterTargetDown",
	}
	if !slices.Equal(pages, want) {
		t.Errorf("these page: %q; want %q", pages, want)
	}
}

// That Alertmanager does with the rules what they say is tested end to end; here, that they name alerts that exist and the labels of the group, and
// that nothing is muted by what does not page (case A55).
func TestExampleInhibitsOnlyWithinADeployment(t *testing.T) {
	content, err := os.ReadFile(exampleConfig)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Route struct {
			GroupBy []string `yaml:"group_by"`
		} `yaml:"route"`
		InhibitRules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string `yaml:"equal"`
		} `yaml:"inhibit_rules"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Route.GroupBy, []string{"deployment"}) {
		t.Errorf("group_by %q", config.Route.GroupBy)
	}
	muted := map[string][]string{}
	for _, rule := range config.InhibitRules {
		if !slices.Equal(rule.Equal, []string{"deployment"}) {
			t.Errorf("%q inhibits with equal %q", rule.Source, rule.Equal)
		}
		for _, source := range named(t, rule.Source) {
			for _, target := range named(t, rule.Target) {
				muted[target.Alert] = append(muted[target.Alert], source.Alert)
				if target.Labels["severity"] == "critical" && source.Labels["severity"] != "critical" {
					t.Errorf("%s, which pages, is muted by %s, which does not", target.Alert, source.Alert)
				}
			}
		}
	}
	down := "LeaderExporterTargetDown"
	for _, alert := range []string{
		"BackgroundLeaderMissing", "BackgroundLeaderUnclaimed", "BackgroundLeaderPhantom", "BackgroundLeaderFlapping",
		"BackgroundLeaderHeartbeatStale", "BackgroundLeaderForeignHolder",
	} {
		if !slices.Contains(muted[alert], down) {
			t.Errorf("%s does not mute %s", down, alert)
		}
	}
	for _, alert := range []string{"BackgroundLeaderMultiple", "BackgroundLeaderMetricsAbsent", "LeaderExporterDown", down} {
		if len(muted[alert]) > 0 {
			t.Errorf("%q mute %s", muted[alert], alert)
		}
	}
}

// named returns the alerts that one matcher of alertname selects.
func named(t *testing.T, matchers []string) []shippedRule {
	t.Helper()
	if len(matchers) != 1 {
		t.Fatalf("matchers %q; want one", matchers)
	}
	match := regexp.MustCompile(`^alertname=~?"(.*)"$`).FindStringSubmatch(matchers[0])
	if match == nil {
		t.Fatalf("matcher %q is not one of alertname", matchers[0])
	}
	pattern := regexp.MustCompile("^(?:" + match[1] + ")$")
	var found []shippedRule
	for _, rule := range shippedRules(t) {
		if pattern.MatchString(rule.Alert) {
			found = append(found, rule)
		}
	}
	if len(found) == 0 {
		t.Errorf("%q matches no alert", matchers[0])
	}
	return found
}
