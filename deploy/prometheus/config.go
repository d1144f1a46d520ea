// Package prometheus writes the configuration of a Prometheus that scrapes replicas and exporter and evaluates the alerts.
//
// The file prometheus.yml, which ships, is what it writes for an example; the demo gets one for its own addresses.
package prometheus

import (
	"bytes"
	_ "embed" // of the template
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/prometheus/common/model"
)

// RuleFile is the name of the rules, which stand beside the configuration.
const RuleFile = "background-leader.rules.yaml"

// Setup is what differs from one installation to the next.
type Setup struct {
	ScrapeInterval, EvaluationInterval time.Duration
	Alertmanagers                      []string // addresses
	Deployments                        []Deployment
}

// Deployment is replicas that elect one leader, and what watches their lock.
type Deployment struct {
	Name                string   // value of the label deployment: letters, digits and dashes
	Replicas, Exporters []string // addresses
}

//go:embed prometheus.yml.tmpl
var configTemplate string

// Config returns the configuration as YAML. It may be called from any goroutine.
func Config(s Setup) ([]byte, error) {
	t, err := template.New("prometheus.yml").Funcs(template.FuncMap{"duration": duration, "list": list}).Parse(configTemplate)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, struct {
		Setup
		RuleFile string
	}{s, RuleFile}); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return out.Bytes(), nil
}

func duration(d time.Duration) string { return model.Duration(d).String() }

// list returns the addresses as a list of YAML, without its brackets.
func list(addresses []string) string {
	quoted := make([]string, len(addresses))
	for i, address := range addresses {
		quoted[i] = strconv.Quote(address)
	}
	return strings.Join(quoted, ", ")
}
