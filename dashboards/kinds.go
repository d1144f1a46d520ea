package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// stat shows the last values, large.
func (p panel) stat() *dashboard.PanelBuilder {
	options := stat.NewOptions()
	options.Orientation = common.VizOrientationAuto
	options.GraphMode = common.BigValueGraphModeNone
	options.ColorMode = common.BigValueColorModeBackgroundSolid
	if len(p.queries) > 1 {
		options.TextMode = common.BigValueTextModeValueAndName
		options.ColorMode = common.BigValueColorModeValue
	}
	options.ReduceOptions.Calcs = []string{"last"} // not lastNotNull: a value that has gone is not known any more
	return p.begin("stat").Options(options).Decimals(0)
}

// timeline shows each series as a bar of states.
func (p panel) timeline() *dashboard.PanelBuilder {
	options := statetimeline.NewOptions()
	options.ShowValue = common.VisibilityModeAuto
	return p.begin("state-timeline").Options(options).
		Custom(statetimeline.FieldConfig{FillOpacity: new(uint32(80)), LineWidth: new(uint32(0))})
}

// lines shows each series as a line. A gap stays a gap.
func (p panel) lines() *dashboard.PanelBuilder {
	options := timeseries.NewOptions()
	options.Legend.ShowLegend = true
	options.Tooltip.Mode = common.TooltipDisplayModeMulti
	return p.begin("timeseries").Options(options).Min(0).Custom(timeseries.FieldConfig{
		DrawStyle: new(common.GraphDrawStyleLine), LineInterpolation: new(common.LineInterpolationStepAfter), LineWidth: new(1.0), FillOpacity: new(10.0),
		ShowPoints: new(common.VisibilityModeAuto), SpanNulls: &common.BoolOrFloat64{Bool: new(false)},
	})
}

// heatmap shows the buckets of a histogram. With windows of a minute at least, $__rate_interval is little more than the distance of two points
// where scrapes are frequent, so what happened once is in one column, seldom two.
func (p panel) heatmap() *dashboard.PanelBuilder {
	options := heatmap.NewOptions()
	options.YAxis.Unit = &p.unit
	options.CellValues = &heatmap.CellValues{Unit: new(units.Short)}
	p.queries[0].format = prometheus.PromQueryFormatHeatmap
	return p.begin("heatmap").Options(options).Interval("1m")
}

// table shows one row for each set of labels, which are the first columns.
func (p panel) table(labels []label, columns ...column) *dashboard.PanelBuilder {
	p.unit = units.Short
	for _, c := range columns {
		p.queries = append(p.queries, query{expr: c.query, now: true, format: prometheus.PromQueryFormatTable})
	}
	b := p.begin("table").Options(table.NewOptions()).Decimals(0)
	order, names, hidden := map[string]int{}, map[string]string{}, map[string]bool{"Time": true}
	for _, l := range labels {
		if l.title == "" {
			hidden[l.name] = true
			continue
		}
		order[l.name], names[l.name] = len(order), l.title
	}
	for i, c := range columns {
		order[valueField(i)], names[valueField(i)] = len(order), c.title
		b.OverrideByName(c.title, c.override())
	}
	return b.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": hidden, "indexByName": order, "renameByName": names,
		}})
}
