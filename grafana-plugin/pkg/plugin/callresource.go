package plugin

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// resources serves the values of template variables: targets, databases, locks, as the parameters target, datname and lock, each
// as often as wanted, narrow them down.
func (d *Datasource) resources() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /targets", d.names(func(a exporter.Locks) (names []string) {
		for _, target := range a.Targets {
			names = append(names, target.Target)
		}
		return names
	}))
	mux.HandleFunc("GET /databases", d.names(func(a exporter.Locks) (names []string) {
		for _, lock := range a.Locks {
			names = append(names, lock.Datname)
		}
		return names
	}))
	mux.HandleFunc("GET /locks", d.names(func(a exporter.Locks) (names []string) {
		for _, lock := range a.Locks {
			names = append(names, lock.Lock)
		}
		return names
	}))
	return mux
}

// names answers with a sorted list of names, each once.
func (d *Datasource) names(of func(exporter.Locks) []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		values := r.URL.Query()
		answer, err := exporter.Locks{}, d.broken
		if err == nil {
			answer, err = d.exporter.Locks(r.Context(), exporter.Filter{Targets: values["target"], Databases: values["datname"], Locks: values["lock"]})
		}
		if err != nil {
			status := http.StatusBadGateway
			if errors.Is(err, exporter.ErrNoAddress) {
				status = http.StatusBadRequest
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
			return
		}
		names := []string{}
		for _, name := range of(answer) {
			if name != "" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		_ = json.NewEncoder(w).Encode(slices.Compact(names))
	}
}
