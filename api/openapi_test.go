package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/plexsphere/leader-exporter/api"
)

// document reads the OpenAPI file as the API serves it.
func document(t *testing.T, r *rig) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(r.get("/api/v1/openapi.yaml").Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every answer has the form that the OpenAPI file gives it, nothing more and nothing less.
func TestAnswersKeepToTheOpenAPIFile(t *testing.T) {
	r := newRig(t, "one", "two", "three", "four")
	start := time.Now().Add(-time.Minute)
	r.poll(t, "one", heldBy(7, "plexsphere-1", start, true))
	ended := heldBy(8, "psql", start, true).Changes[0]
	ended.End = time.Now()
	r.poll(t, "two", free(ended))
	failed := free()
	failed.Err = errors.New("refused")
	r.poll(t, "three", failed)

	doc := document(t, r)
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(map[string]bool)
	for query, status := range map[string]int{
		"/api/v1/locks": 200,
		"/api/v1/locks?target=one&datname=db&lock=leader":                 200,
		"/api/v1/locks?target=nobody":                                     200,
		"/api/v1/locks?pid=7":                                             400,
		"/api/v1/terms":                                                   200,
		"/api/v1/terms?limit=1":                                           200,
		"/api/v1/terms?target=two&from=2026-01-01T00:00:00Z":              200,
		"/api/v1/terms?from=yesterday":                                    400,
		"/api/v1/terms?limit=0":                                           400,
		"/api/v1/terms?limit=1001":                                        400,
		"/api/v1/terms?limit=1&limit=2":                                   400,
		"/api/v1/terms?lock=%zz":                                          400,
		"/api/v1/locks?lock=a;target=b":                                   400,
		"/api/v1/events?lock=%":                                           400,
		"/api/v1/terms?cursor=nonsense":                                   400,
		"/api/v1/terms?from=2026-12-02T00:00:00Z&to=2026-12-01T00:00:00Z": 400,
		"/api/v1/events?since=1":                                          400,
		"/api/v1/openapi.yaml":                                            200,
	} {
		response := r.get(query)
		if response.Code != status {
			t.Errorf("%s: status %d, want %d", query, response.Code, status)
		}
		request := httptest.NewRequest(http.MethodGet, query, nil)
		route, params, err := router.FindRoute(request)
		if err != nil {
			t.Fatal(query, err)
		}
		asked[route.Path] = true
		err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route},
			Status:                 response.Code, Header: response.Header(), Body: response.Result().Body,
			Options: &openapi3filter.Options{IncludeResponseStatus: true},
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	for path := range doc.Paths.Map() {
		if !asked[path] {
			t.Errorf("no request here asks %s", path)
		}
	}
}

// The schemas have the properties of the types, and those that may be left out are the ones that JSON leaves out.
func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	doc := document(t, newRig(t))
	answer := func(path string) *openapi3.Schema {
		return doc.Paths.Value(path).Get.Responses.Status(http.StatusOK).Value.Content["application/json"].Schema.Value
	}
	schema := func(name string) *openapi3.Schema { return doc.Components.Schemas[name].Value }
	for name, tc := range map[string]struct {
		schema *openapi3.Schema
		value  any
	}{
		"locks": {answer("/api/v1/locks"), api.LocksAnswer{}}, "terms": {answer("/api/v1/terms"), api.TermsAnswer{}},
		"Lock": {schema("Lock"), api.Lock{}}, "Holder": {schema("Holder"), api.Holder{}}, "Target": {schema("Target"), api.TargetAnswer{}},
		"Term": {schema("Term"), api.Term{}}, "Problem": {schema("Problem"), api.Problem{}}, "Removed": {schema("Removed"), api.Removed{}},
	} {
		var properties, required []string
		for field := range reflect.TypeOf(tc.value).Fields() {
			property, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			properties = append(properties, property)
			if option != "omitempty" {
				required = append(required, property)
			}
		}
		var documented []string
		for property := range tc.schema.Properties {
			documented = append(documented, property)
		}
		for _, list := range [][]string{properties, required, documented, tc.schema.Required} {
			slices.Sort(list)
		}
		if !slices.Equal(documented, properties) || !slices.Equal(tc.schema.Required, required) {
			t.Errorf("%s: the file has %v, required %v; the type %v, %v", name, documented, tc.schema.Required, properties, required)
		}
	}
}

// The parameters of the file are those that are taken, and no others.
func TestParametersAreThoseOfTheFile(t *testing.T) {
	r := newRig(t)
	r.events.Close() // so that a stream is refused, and a parameter before that
	for path, item := range document(t, r).Paths.Map() {
		var names []string
		for _, parameter := range item.Get.Parameters {
			if parameter.Value.In != "query" {
				continue
			}
			names = append(names, parameter.Value.Name)
			value := map[string]string{"from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z", "limit": "7"}[parameter.Value.Name]
			if parameter.Value.Name == "cursor" {
				continue // any of one's own is refused
			}
			if response := r.get(path + "?" + url.Values{parameter.Value.Name: {value}}.Encode()); response.Code == http.StatusBadRequest {
				t.Errorf("%s: parameter %s is refused: %s", path, parameter.Value.Name, response.Body.String())
			}
		}
		if len(names) == 0 {
			continue
		}
		if got, want := r.get(path+"?nonsense=1").Body.String(), "there are "+strings.Join(names, ", "); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q in it", path, got, want)
		}
	}
}
