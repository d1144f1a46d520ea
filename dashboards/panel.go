package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// unknown is what stands where nothing is known.
const unknown = "unknown"

// panel is what all kinds of panels have in common.
type panel struct {
	title, description string
	unit               string
	queries            []query
	states             []state // none: the series are told apart by colour and name
	missing            string  // what stands for a missing value; empty means unknown
}

// datasource is the one that the reader has chosen above the panels.
func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// begin returns a panel of a kind with everything but the options of the kind.
func (p panel) begin(kind string) *dashboard.PanelBuilder {
	if p.missing == "" {
		p.missing = unknown
	}
	b := dashboard.NewPanelBuilder().Type(kind).Title(p.title).Description(p.description).Datasource(datasource()).
		Unit(p.unit).NoValue(p.missing)
	for i, q := range p.queries {
		b.WithTarget(target(refID(i), q))
	}
	if p.states == nil {
		return b.ColorScheme(colorMode(dashboard.FieldColorModeIdPaletteClassic))
	}
	return b.Mappings(mappings(p.states, p.missing)).Thresholds(thresholds(p.states)).ColorScheme(colorMode(dashboard.FieldColorModeIdThresholds))
}

func refID(i int) string { return string(rune('A' + i)) }

func target(ref string, q query) *prometheus.DataqueryBuilder {
	b := prometheus.NewDataqueryBuilder().RefId(ref).Datasource(datasource()).Expr(q.expr).LegendFormat(q.legend).Format(q.format).
		EditorMode(prometheus.QueryEditorModeCode)
	if q.now {
		return b.Instant()
	}
	return b.Range()
}

// colorMode is a builder of how a panel colours its values.
type colorMode dashboard.FieldColorModeId

// Build implements cog.Builder.
func (m colorMode) Build() (dashboard.FieldColor, error) {
	return dashboard.FieldColor{Mode: dashboard.FieldColorModeId(m)}, nil
}

// column is one query of a table.
type column struct {
	title  string
	query  string
	unit   string
	states []state
	// missing is what stands for a missing value; empty means unknown.
	missing string
}

// label is a column that a label of the queries' results fills. Without a title it is not shown.
type label struct{ name, title string }

// override returns the settings of the column that differ from the table's.
func (c column) override() []dashboard.DynamicConfigValue {
	if c.missing == "" {
		c.missing = unknown
	}
	if c.unit == "" {
		c.unit = units.Short
	}
	settings := []dashboard.DynamicConfigValue{
		{Id: "unit", Value: c.unit},
		{Id: "noValue", Value: c.missing},
		{Id: "mappings", Value: mappings(c.states, c.missing)},
	}
	if c.states != nil {
		settings = append(settings,
			dashboard.DynamicConfigValue{Id: "thresholds", Value: map[string]any{"mode": "absolute", "steps": steps(c.states)}},
			dashboard.DynamicConfigValue{Id: "custom.cellOptions", Value: map[string]any{"type": "color-text"}},
		)
	}
	return settings
}

// valueField is the name that the transformation merge gives to the value of a query.
func valueField(i int) string { return fmt.Sprintf("Value #%s", refID(i)) }
