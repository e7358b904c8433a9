package localstack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MissingError says that a required program is not installed, and how to install it.
type MissingError struct {
	Name    string // its common name, such as PostgreSQL
	program string
	apt     string
	brew    string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s was not found: there is no %s on the PATH nor where packages put it. Install it with `go tool task setup`, `apt-get install %s` or `brew install %s`",
		e.Name, e.program, e.apt, e.brew)
}

var (
	missingPostgres = &MissingError{Name: "PostgreSQL", program: "postgres and initdb", apt: "postgresql", brew: "postgresql"}
	missingRedis    = &MissingError{Name: "Redis", program: "redis-server", apt: "redis-server", brew: "redis"}
)

// postgresPrograms are the directories that hold a PostgreSQL server: the PATH's
// first, then those of Debian's and Homebrew's packages, newest release first.
func postgresPrograms() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(program))
		}
	}
	for _, places := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	} {
		found, _ := filepath.Glob(places) // the patterns are well formed
		slices.SortFunc(found, func(a, b string) int { return release(b) - release(a) })
		dirs = append(dirs, found...)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return !executable(filepath.Join(dir, "postgres")) || !executable(filepath.Join(dir, "initdb"))
	})
}

// release is the number in the path of a PostgreSQL package; 0 if it has none.
func release(dir string) int {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, dir)
	number, _ := strconv.Atoi(digits)
	return number
}

// findPrograms chooses the programs of the release that wrote the data, or the
// first found if there are no data yet.
func (c *postgresCluster) findPrograms() error {
	dirs := postgresPrograms()
	if len(dirs) == 0 {
		return missingPostgres
	}
	written, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if err != nil {
		c.bin = dirs[0]
		return nil
	}
	major := strings.TrimSpace(string(written))
	for _, dir := range dirs {
		if version, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output(); err == nil && majorOf(string(version)) == major {
			c.bin = dir
			return nil
		}
	}
	return fmt.Errorf("the data in %s were written by PostgreSQL %s, which is not installed (found: %s): install that release, or move the directory away to begin with an empty one",
		c.dir, major, strings.Join(dirs, ", "))
}

// majorOf returns the major version in the output of `postgres --version`, such as
// "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)".
func majorOf(version string) string {
	fields := strings.Fields(version)
	if len(fields) < 3 {
		return ""
	}
	return fields[2][:len(fields[2])-len(strings.TrimLeft(fields[2], "0123456789"))]
}

func findRedis() (string, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/opt/homebrew/bin/redis-server", "/usr/local/bin/redis-server"} {
		if executable(path) {
			return path, nil
		}
	}
	return "", missingRedis
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// PostgresProgram returns the path of a program of PostgreSQL, such as pg_dump: that on the PATH, or else the
// newest that a package installed. It returns a *[MissingError] if there is none.
func PostgresProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range postgresPrograms() {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	return "", &MissingError{Name: name, program: name, apt: "postgresql-client", brew: "postgresql"}
}
