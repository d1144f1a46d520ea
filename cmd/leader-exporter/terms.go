package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/plexsphere/leader-exporter/api"
	"github.com/plexsphere/leader-exporter/cmd/leader-exporter/config"
	"github.com/plexsphere/leader-exporter/history"
)

const (
	// termsTimeout bounds one request of terms.
	termsTimeout = 10 * time.Second
	// mostTerms is how many terms one request, or one read of a file, brings.
	mostTerms = 1000
)

// termsOptions is what the command line says to terms.
type termsOptions struct {
	url        string
	httpConfig string
	query      history.Query
	limit      int
	output     string
}

// termsFlags declares the flags of terms.
func termsFlags(cmd *kingpin.CmdClause) *termsOptions {
	o := &termsOptions{}
	cmd.Flag("url", "The running exporter to ask, unless --history.path names a file.").Default("http://localhost:18861").StringVar(&o.url)
	cmd.Flag("http.config.file", "HTTP client configuration file to reach it: TLS, basic auth and so on, as Prometheus has it.").StringVar(&o.httpConfig)
	cmd.Flag("target", "Only terms on this target.").StringVar(&o.query.Target)
	cmd.Flag("datname", "Only terms in this database.").StringVar(&o.query.Datname)
	cmd.Flag("lock", "Only terms of this lock.").StringVar(&o.query.Lock)
	cmd.Flag("from", "Only terms that went on then or later: a time as of RFC 3339, or how long ago, as in 24h.").SetValue(&moment{flag: "from", value: &o.query.From})
	cmd.Flag("to", "Only terms that had begun before: a time as of RFC 3339, or how long ago.").SetValue(&moment{flag: "to", value: &o.query.To})
	cmd.Flag("limit", "Most terms to print, newest first; 0 prints all.").Default("100").IntVar(&o.limit)
	cmd.Flag("output", "table or json.").Default("table").EnumVar(&o.output, "table", "json")
	return o
}

// moment is the value of a flag that is a time, or how long ago it was.
type moment struct {
	flag  string
	value *time.Time
}

// Set implements kingpin.Value.
func (m *moment) Set(text string) error {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		*m.value = at
		return nil
	}
	ago, err := model.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("--%s=%s: want a time as of RFC 3339, such as 2026-12-02T15:04:05Z, or how long ago, such as 24h", m.flag, text)
	}
	*m.value = time.Now().Add(-time.Duration(ago))
	return nil
}

// String implements kingpin.Value.
func (m *moment) String() string { return "" }

// terms prints terms of holders, newest first.
func terms(ctx context.Context, opts termsOptions, file string, stdout, stderr io.Writer) int {
	if opts.limit < 0 {
		fmt.Fprintf(stderr, "leader-exporter: terms: --limit=%d: want 0 or more\n", opts.limit)
		return exitFailed
	}
	source, closeSource, err := opts.source(file)
	if err == nil {
		err = errors.Join(opts.print(ctx, stdout, source), closeSource())
	}
	if err != nil {
		fmt.Fprintf(stderr, "leader-exporter: terms: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// termsSource reads a page of terms.
type termsSource func(ctx context.Context, q history.Query) (api.TermsAnswer, error)

// source opens the history file, if one is named, or else asks a running exporter.
func (o termsOptions) source(file string) (read termsSource, closeSource func() error, err error) {
	if file != "" {
		store, err := history.OpenReadOnly(file)
		if err != nil {
			return nil, nil, fmt.Errorf("--history.path=%s: %w", file, err)
		}
		return func(_ context.Context, q history.Query) (api.TermsAnswer, error) {
			page, err := store.Terms(q)
			return api.TermsOf(page, nil), err // nobody watches here
		}, store.Close, nil
	}
	base, err := o.address()
	if err != nil {
		return nil, nil, err
	}
	client, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, q history.Query) (api.TermsAnswer, error) {
		answer, err := ask(ctx, client, base, q)
		if err != nil {
			return answer, fmt.Errorf("--url=%s: %w", base.Redacted(), err)
		}
		return answer, nil
	}, func() error { return nil }, nil
}

// address is the exporter's. The error repeats nothing of what may hold a password.
func (o termsOptions) address() (*url.URL, error) {
	const want = "want an address such as http://localhost:18861"
	address, err := url.Parse(o.url)
	switch {
	case err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "":
		return address, nil
	case strings.ContainsAny(o.url, "@%?"):
		return nil, errors.New("--url: " + want)
	default:
		return nil, fmt.Errorf("--url=%s: %s", o.url, want)
	}
}

// client returns the HTTP client that --http.config.file describes.
func (o termsOptions) client() (*http.Client, error) {
	if o.httpConfig == "" {
		return &http.Client{}, nil
	}
	settings, _, err := promconfig.LoadHTTPConfigFile(o.httpConfig)
	if err != nil {
		return nil, fmt.Errorf("--http.config.file=%s: %w", o.httpConfig, config.WithoutValues(err))
	}
	client, err := promconfig.NewClientFromConfig(*settings, "leader-exporter")
	if err != nil {
		return nil, fmt.Errorf("--http.config.file=%s: %w", o.httpConfig, err)
	}
	return client, nil
}

// ask reads a page from a running exporter.
func ask(ctx context.Context, client *http.Client, base *url.URL, q history.Query) (answer api.TermsAnswer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, termsTimeout, fmt.Errorf("no answer within %v", termsTimeout))
	defer cancel()
	address := base.JoinPath("api/v1/terms")
	values := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	for name, value := range map[string]string{"target": q.Target, "datname": q.Datname, "lock": q.Lock, "cursor": q.Cursor} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	address.RawQuery = values.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return answer, err
	}
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return answer, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var problem api.Problem
		_ = json.NewDecoder(response.Body).Decode(&problem) // another server's page is no JSON
		return answer, fmt.Errorf("%s: %s", response.Status, cmp.Or(problem.Error, "is this a leader-exporter?"))
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("the answer is not that of a leader-exporter: %w", err)
	}
	return answer, nil
}

// print reads page by page and prints as it reads.
func (o termsOptions) print(ctx context.Context, stdout io.Writer, read termsSource) error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	encoder := json.NewEncoder(stdout)
	if o.output == "table" {
		fmt.Fprintln(table, "START\tEND\tLASTED\tTARGET\tDATNAME\tLOCK\tPID\tAPPLICATION\tUSER\tCLIENT")
	}
	q := o.query
	for printed := 0; ; {
		q.Limit = mostTerms
		if o.limit > 0 {
			q.Limit = min(mostTerms, o.limit-printed)
		}
		page, err := read(ctx, q)
		if err != nil {
			return err
		}
		for _, term := range page.Terms {
			if o.output == "json" {
				err = encoder.Encode(term)
			} else {
				err = printTerm(table, term)
			}
			if err != nil {
				return fmt.Errorf("write a line: %w", err)
			}
		}
		printed += len(page.Terms)
		if q.Cursor = page.Next; q.Cursor == "" || o.limit > 0 && printed >= o.limit {
			break
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

// printTerm writes a line of the table.
func printTerm(table io.Writer, t api.Term) error {
	const form = "2006-01-02T15:04:05.000Z"
	end, lasted := "not known", t.LastSeen.Sub(t.Start)
	switch {
	case t.Ongoing:
		end = "goes on"
	case t.End != nil:
		end, lasted = t.End.UTC().Format(form), t.End.Sub(t.Start)
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%v\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", t.Start.UTC().Format(form), end, lasted.Round(time.Millisecond),
		t.Target, t.Datname, t.Lock, t.PID, orDash(t.ApplicationName), orDash(t.Usename), orDash(t.ClientAddr))
	return err
}
