package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/plexsphere/leader-exporter/grafana-plugin/pkg/exporter"
)

// CheckHealth says in one sentence what is wrong, and what to do about it.
func (d *Datasource) CheckHealth(ctx context.Context, _ *backend.CheckHealthRequest) (*backend.CheckHealthResult, error) {
	if d.broken != nil {
		return ill(d.explain(ctx, d.broken)), nil
	}
	answer, err := d.exporter.Locks(ctx, exporter.Filter{})
	if err != nil {
		return ill(d.explain(ctx, err)), nil
	}
	var down []string
	for _, target := range answer.Targets {
		if !target.Up {
			down = append(down, fmt.Sprintf("%s (%s)", target.Target, target.Error))
		}
	}
	switch all := len(answer.Targets); {
	case all == 0:
		return ill("The exporter answers, but watches no target."), nil
	case len(down) == all:
		return ill("The exporter answers, but none of its targets is up: " + strings.Join(down, ", ") + "."), nil
	case len(down) > 0:
		return well(fmt.Sprintf("The exporter answers. Of %d targets, %d are down: %s.", all, len(down), strings.Join(down, ", "))), nil
	default:
		return well(fmt.Sprintf("The exporter answers. Targets: %d, all up. Locks: %d.", all, len(answer.Locks))), nil
	}
}

func ill(message string) *backend.CheckHealthResult {
	return &backend.CheckHealthResult{Status: backend.HealthStatusError, Message: message}
}

func well(message string) *backend.CheckHealthResult {
	return &backend.CheckHealthResult{Status: backend.HealthStatusOk, Message: message}
}

// explain turns an error into a sentence for who configures the data source.
func (d *Datasource) explain(ctx context.Context, err error) string {
	if status, ok := errors.AsType[*exporter.StatusError](err); ok {
		return d.explainStatus(ctx, status)
	}
	var resolve *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, exporter.ErrNoAddress):
		return "No address: the URL must be that of an exporter, such as http://leader-exporter:18861."
	case isTLS(err):
		return "TLS fails: " + err.Error() + ". Check the scheme of the URL, the CA certificate, the server name, and the client certificate."
	case d.broken != nil:
		return "The settings are wrong: " + err.Error() + "."
	case errors.Is(err, exporter.ErrNotJSON):
		return "Something answers at this address, but it is not leader-exporter."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Refused: nothing listens at this address. Does the exporter run, and is this its port?"
	case errors.As(err, &resolve):
		return "The host's name cannot be resolved: " + resolve.Error() + "."
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "No answer in time: is a firewall in the way, or the timeout too short?"
	default:
		return "The exporter cannot be asked: " + err.Error() + "."
	}
}

func (d *Datasource) explainStatus(ctx context.Context, status *exporter.StatusError) string {
	switch status.Code {
	case http.StatusUnauthorized:
		return "Unauthorized (401): the exporter wants other credentials than these."
	case http.StatusForbidden:
		return "Forbidden (403): what answers does not let these credentials in."
	case http.StatusBadRequest:
		if strings.Contains(status.Message, "HTTP request to an HTTPS server") {
			return "TLS fails: the exporter speaks HTTPS, and the URL begins with http://."
		}
	case http.StatusNotFound:
		// An exporter from before the API has metrics.
		if metrics, err := d.exporter.Body(ctx, "metrics"); err == nil && strings.Contains(metrics, "leader_exporter_build_info") {
			return "Old API: this leader-exporter has no /api/v1/locks. Install a newer one."
		}
		return "Something answers at this address, but it is not leader-exporter (404 for /api/v1/locks)."
	case http.StatusServiceUnavailable:
		return "The exporter, or a proxy before it, is busy or stopping: " + status.Error() + "."
	}
	return "The exporter cannot be asked: " + status.Error() + "."
}

// isTLS reports whether the error is about TLS or certificates.
func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	for _, target := range []any{&record, &verification, &alert, &authority, &host, &invalid} {
		if errors.As(err, target) {
			return true
		}
	}
	// These two have no type that can be told.
	text := err.Error()
	return strings.Contains(text, "server gave HTTP response to HTTPS client") || strings.Contains(text, "tls: ") || strings.Contains(text, "settings of TLS")
}
