package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// page is what Alertmanager tells of one alert: that it fires, or that it is over.
type page struct {
	Status      string            `json:"status"` // firing or resolved
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Fingerprint string            `json:"fingerprint"` // of the labels

	at time.Time // when it arrived
}

const firing = "firing"

func (p page) String() string {
	what := map[string]string{"critical": "page", "warning": "ticket"}[p.Labels["severity"]]
	if p.Status != firing {
		what = "over"
	}
	return fmt.Sprintf("%-7s %s of %s: %s", cmp.Or(what, "alert"), p.Labels["alertname"], p.Labels["deployment"], p.Annotations["summary"])
}

// pager is the webhook that Alertmanager calls. Its methods are safe from any goroutine.
type pager struct {
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup

	mu   sync.Mutex        // guards the fields below
	news []page            // in the order of their arrival
	last map[string]string // status, by fingerprint
}

// startPager begins to listen on an address of its own.
func startPager() (*pager, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &pager{listener: listener, last: make(map[string]string)}
	p.server = &http.Server{Handler: http.HandlerFunc(p.receive), ReadHeaderTimeout: time.Second}
	p.served.Go(func() { _ = p.server.Serve(listener) }) // until close
	return p, nil
}

func (p *pager) url() string { return "http://" + p.listener.Addr().String() + "/" }

// receive takes a notification. It tells of all alerts of a group whenever one of them changes.
func (p *pager) receive(w http.ResponseWriter, r *http.Request) {
	var notification struct {
		Alerts []page `json:"alerts"`
	}
	if err := json.NewDecoder(r.Body).Decode(&notification); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, alert := range notification.Alerts {
		last, known := p.last[alert.Fingerprint]
		if last == alert.Status || !known && alert.Status != firing {
			continue // nothing new, or the end of what was muted
		}
		p.last[alert.Fingerprint] = alert.Status
		alert.at = time.Now()
		p.news = append(p.news, alert)
	}
}

// after returns what has arrived after the first n.
func (p *pager) after(n int) []page {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news[n:len(p.news):len(p.news)]
}

// close stops listening.
func (p *pager) close() {
	_ = p.server.Close()
	p.served.Wait()
}
