package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The variables that say which database to watch.
const (
	dsnVariable          = "LEADER_EXPORTER_DSN"
	dsnFileVariable      = "LEADER_EXPORTER_DSN_FILE"
	fallbackVariable     = "PLEXSPHERE_DSN"
	passwordFileVariable = "LEADER_EXPORTER_PASSWORD_FILE"
)

// Source is where a connection string comes from. What it names is read at each connect.
type Source struct {
	Origin       string // how errors name it: a variable, or a key of the file
	DSN          string // empty with a DSNFile, and for libpq's variables alone
	DSNFile      File
	PasswordFile File
}

// File is a file that a variable or a key of the configuration names; the zero File is none.
type File struct {
	Origin string // how errors name it
	Path   string
}

// FromEnvironment finds the source by its precedence and tries it once, so that a mistake shows at the start.
func FromEnvironment() (Source, error) {
	s := Source{PasswordFile: File{passwordFileVariable, os.Getenv(passwordFileVariable)}}
	switch {
	case os.Getenv(dsnVariable) != "":
		s.Origin, s.DSN = dsnVariable, os.Getenv(dsnVariable)
	case os.Getenv(dsnFileVariable) != "":
		s.Origin, s.DSNFile = dsnFileVariable, File{dsnFileVariable, os.Getenv(dsnFileVariable)}
	case os.Getenv(fallbackVariable) != "":
		s.Origin, s.DSN = fallbackVariable, os.Getenv(fallbackVariable)
	case hasLibpqVariable():
		s.Origin = "the PG* variables"
	default:
		return Source{}, fmt.Errorf("no database given: set %s, %s, %s, or libpq's PGHOST, PGDATABASE and PGUSER, or --config.file",
			dsnVariable, dsnFileVariable, fallbackVariable)
	}
	_, err := s.ConnConfig()
	return s, err
}

// hasLibpqVariable reports whether the environment names a database as libpq would read it.
func hasLibpqVariable() bool {
	for _, name := range []string{"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// ConnConfig reads and parses the source. Its errors hold nothing of the connection string.
func (s Source) ConnConfig() (*pgx.ConnConfig, error) {
	dsn := s.DSN
	if s.DSNFile.Path != "" {
		content, err := s.DSNFile.read()
		if err != nil {
			return nil, err
		}
		if dsn = strings.TrimSpace(content); dsn == "" {
			return nil, fmt.Errorf("%s: the file is empty", s.Origin)
		}
	}
	config, err := pgx.ParseConfig(dsn)
	if err == nil {
		err = plausible(dsn, config)
	} else {
		err = errors.New(diagnosis(err))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Origin, err)
	}
	if s.PasswordFile.Path != "" {
		content, err := s.PasswordFile.read()
		if err != nil {
			return nil, err
		}
		config.Password = strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
	}
	return config, nil
}

// withoutLines names the keys of the file without their lines. These are right while the file is read; what stands above a target, and so moves it,
// makes no other source of it.
func (s Source) withoutLines(path string) Source {
	s.Origin = path + ": dsn"
	if s.DSNFile.Path != "" {
		s.Origin = path + ": dsn_file"
		s.DSNFile.Origin = s.Origin
	}
	if s.PasswordFile.Path != "" {
		s.PasswordFile.Origin = path + ": password_file"
	}
	return s
}

// read reads the file. Its error repeats only what can be nothing but a path: by mistake the secret itself may stand there.
func (f File) read() (string, error) {
	content, err := os.ReadFile(f.Path)
	if err == nil {
		return string(content), nil
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && (!filepath.IsAbs(f.Path) || strings.ContainsAny(f.Path, "=@:")) {
		return "", fmt.Errorf("%s: the file that it names (not shown: no plain absolute path) cannot be read: %w", f.Origin, pathErr.Err)
	}
	return "", fmt.Errorf("%s: %w", f.Origin, err)
}

// diagnosis says what is wrong with a connection string. pgx's own text may hold parts of the password (its redaction is
// best effort, as its documentation says), so only phrases that are known by heart pass.
func diagnosis(err error) string {
	for _, known := range []struct{ phrase, text string }{
		{"invalid port", "invalid port"},
		{"could not match", "the number of ports does not match that of the hosts"},
		{"invalid connect_timeout", "invalid connect_timeout"},
		{"sslmode is invalid", "invalid sslmode"},
		{"invalid sslcertmode", "invalid sslcertmode"},
		{"failed to configure TLS", "TLS cannot be configured: look at sslmode, sslrootcert, sslcert and sslkey"},
		{"failed to read service", "the service cannot be read: look at service and PGSERVICEFILE"},
		{"unknown target_session_attrs", "unknown target_session_attrs"},
		{"unknown channel_binding", "unknown channel_binding"},
		{"invalid require_auth", "invalid require_auth"},
		{"unterminated quoted string", "a quote is not closed"},
		{"forbidden NUL byte", "it holds a NUL byte"},
		{"failed to parse as URL", "not a valid postgres:// URL: special characters in the password must be percent-encoded"},
		{"failed to parse as keyword/value", "not a valid list of keyword=value: values with spaces need single quotes"},
	} {
		if strings.Contains(err.Error(), known.phrase) {
			return "malformed connection string: " + known.text
		}
	}
	return "malformed connection string"
}

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// plausible refuses connection strings that parse although part of a password was taken for something else, which the
// server would then be told, and repeat in its error.
func plausible(dsn string, config *pgx.ConnConfig) error {
	for name := range config.RuntimeParams {
		if !parameterName.MatchString(name) {
			return errors.New("malformed connection string: a parameter's name is none; values with spaces need single quotes")
		}
	}
	if _, rest, isURL := strings.Cut(dsn, "://"); isURL {
		authority, path, _ := strings.Cut(rest, "/")
		if strings.Count(authority, "@") > 1 || strings.Contains(path, "@") {
			return errors.New("malformed connection string: an @ too many: @, /, ? and # in the password must be percent-encoded, and an @ everywhere else")
		}
	}
	return nil
}
