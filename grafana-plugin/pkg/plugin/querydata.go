package plugin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/grafana/grafana-plugin-sdk-go/experimental/concurrent"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// maxQueries is how many queries of one request run at a time. What they ask the exporter is bounded for all together.
const maxQueries = 8

// QueryData answers the queries of a panel, of an alert rule, or of an annotation.
func (d *Datasource) QueryData(ctx context.Context, request *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	return concurrent.QueryData(ctx, request, func(ctx context.Context, q concurrent.Query) backend.DataResponse {
		frames, err := d.answer(ctx, q.DataQuery)
		if err != nil {
			return errorResponse(err)
		}
		return backend.DataResponse{Status: backend.StatusOK, Frames: frames}
	}, maxQueries)
}

func (d *Datasource) answer(ctx context.Context, dataQuery backend.DataQuery) (data.Frames, error) {
	q, err := parse(dataQuery)
	if err != nil {
		return nil, err
	}
	answers := map[string]func(context.Context, query) (data.Frames, error){
		"":              d.current,
		typeCurrent:     d.current,
		typeTerms:       d.terms,
		typeTimeline:    d.timeline,
		typeStats:       d.stats,
		typeAnnotations: d.annotations,
		typeEvents:      d.events,
	}
	answer, ok := answers[q.QueryType]
	if !ok {
		return nil, backend.DownstreamErrorf("query type %q: there are current, terms, timeline, stats, annotations and events", q.QueryType)
	}
	if d.broken != nil {
		return nil, backend.DownstreamError(d.broken)
	}
	if err := q.checkRange(); err != nil {
		return nil, err
	}
	return answer(ctx, q)
}

// errorResponse says whose fault an error is: the exporter's, or what lies on the way to it, which is not the plugin.
func errorResponse(err error) backend.DataResponse {
	response := backend.ErrDataResponseWithSource(backend.StatusBadRequest, backend.ErrorSourceDownstream, err.Error())
	if status, ok := errors.AsType[*exporter.StatusError](err); ok {
		response.Status = backend.Status(status.Code)
	} else if !backend.IsDownstreamError(err) {
		response.Status = http.StatusBadGateway
	}
	if errors.Is(err, context.DeadlineExceeded) {
		response.Status = backend.StatusTimeout
	}
	return response
}

func (d *Datasource) current(ctx context.Context, q query) (data.Frames, error) {
	answer, err := d.exporter.Locks(ctx, q.Filter)
	if err != nil {
		return nil, err
	}
	frame := currentFrame(answer.Locks)
	frame.Meta.ExecutedQueryString = q.said("api/v1/locks")
	frame.AppendNotices(targetNotices(answer.Targets)...)
	if q.Live {
		d.attach(frame, typeCurrent, q.Filter)
	}
	return data.Frames{frame}, nil
}

func (d *Datasource) terms(ctx context.Context, q query) (data.Frames, error) {
	limit := q.limit(defaultRows)
	terms, cut, err := d.exporter.Terms(ctx, q.Filter, q.TimeRange.From, q.TimeRange.To, limit)
	if err != nil {
		return nil, err
	}
	frame := termsFrame(terms)
	frame.Meta.ExecutedQueryString = q.said("api/v1/terms")
	if cut {
		frame.AppendNotices(cutNotice(len(terms)))
	}
	return data.Frames{frame}, nil
}

func (d *Datasource) stats(ctx context.Context, q query) (data.Frames, error) {
	answer, err := d.exporter.Locks(ctx, q.Filter)
	if err != nil {
		return nil, err
	}
	frame := statsFrame(answer.Locks, q.Stat)
	frame.Meta.ExecutedQueryString = q.said("api/v1/locks")
	frame.AppendNotices(targetNotices(answer.Targets)...)
	return data.Frames{frame}, nil
}

func (d *Datasource) annotations(ctx context.Context, q query) (data.Frames, error) {
	terms, cut, err := d.exporter.Terms(ctx, q.Filter, q.TimeRange.From, q.TimeRange.To, q.limit(defaultSegments))
	if err != nil {
		return nil, err
	}
	present, err := d.exporter.Locks(ctx, q.Filter)
	if err != nil {
		return nil, err
	}
	frame := annotationsFrame(terms, present, q.TimeRange.From, earlier(q.TimeRange.To, time.Now()))
	frame.Meta.ExecutedQueryString = q.said("api/v1/terms")
	if cut {
		frame.AppendNotices(cutNotice(len(terms)))
	}
	return data.Frames{frame}, nil
}

// events begins empty: its rows come by the channel.
func (d *Datasource) events(_ context.Context, q query) (data.Frames, error) {
	frame := eventsFrame(nil)
	frame.Meta.ExecutedQueryString = q.said("api/v1/events")
	d.attach(frame, typeEvents, q.Filter)
	return data.Frames{frame}, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
