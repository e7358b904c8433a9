package regions

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// UnstickSQL lets commits go on without a standby.
const UnstickSQL = "ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf();"

// UnstickFix is what to do if commits are stuck.
const UnstickFix = "Start that standby, or give it that name: cluster_name in its postgresql.conf, and a restart. If it will not be back soon, run on this server " +
	"`" + UnstickSQL + "` From then on a loss of this region loses its last moments."

var (
	// countedNames is the form of synchronous_standby_names with a number.
	countedNames = regexp.MustCompile(`(?is)^\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\((.*)\)\s*$`)
	oneName      = regexp.MustCompile(`"((?:[^"]|"")*)"|([^\s,"]+)`)
)

// awaited returns for how many standbys commits wait, and the names of those that count.
func awaited(setting string) (most int, names []string) {
	most = 1
	if parts := countedNames.FindStringSubmatch(setting); parts != nil {
		most, _ = strconv.Atoi(parts[1])
		setting = parts[2]
	}
	for _, found := range oneName.FindAllStringSubmatch(setting, -1) {
		name := found[2]
		if name == "" {
			name = strings.ReplaceAll(found[1], `""`, `"`)
		}
		names = append(names, name)
	}
	return most, names
}

// Stuck says in a sentence that no commit succeeds, since the standbys for which commits wait do not follow; "" if commits succeed.
// A standby whose state the role may not see counts by its name.
func (s Server) Stuck() string {
	if s.Standby || s.Synchronous == "" || !s.CommitsWait {
		return ""
	}
	most, names := awaited(s.Synchronous)
	anyone, enough, late, others := slices.Contains(names, "*"), 0, []string(nil), []string(nil)
	for _, one := range s.Standbys {
		named := anyone || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, one.Name) })
		switch {
		case one.State == "sync" || one.State == "quorum" || one.State == "" && named:
			enough++
		case named:
			late = append(late, one.Name)
		default:
			others = append(others, one.Name)
		}
	}
	if enough >= most {
		return ""
	}
	who, which := s.Synchronous, "of these names"
	if len(names) == 1 {
		who, which = names[0], "of that name"
	}
	if anyone {
		who = "any standby"
	}
	why := "no standby follows"
	switch {
	case len(late) > 0:
		return fmt.Sprintf("Commits wait for %s, and %s did not catch up yet: no write succeeds until then.", who, strings.Join(late, ", "))
	case enough > 0:
		why = fmt.Sprintf("only %d of %d follow", enough, most)
	case anyone:
		why = "none follows"
	case len(others) == 1:
		why = fmt.Sprintf("no standby %s follows (%s does)", which, others[0])
	case len(others) > 1:
		why = fmt.Sprintf("no standby %s follows (%s do)", which, strings.Join(others, ", "))
	}
	return fmt.Sprintf("Commits wait for %s, and %s: no write succeeds.", who, why)
}
