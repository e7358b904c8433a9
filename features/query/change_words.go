package query

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/reelay/reelay/models/access"
)

// changeWord says how an action of the audit log is described in the feed of changes.
type changeWord struct {
	kind ChangeKind
	// title is a sentence. {target}, {name} and the other words in braces are values of the
	// payload, before a change if they are not in what is after it. {for model} is " for " and the
	// value, if there is one.
	title string
}

// changeWords are the actions that change the installation, by the name of the mutation. What
// operators do to an account's jobs, schedules, endpoints and files is not among them: only
// admins read that, in the audit log.
var changeWords = map[string]changeWord{
	"applyModels":   {ChangeModel, "Models applied: {target}"},
	"removeModel":   {ChangeModel, "Model {target} removed"},
	"restoreModel":  {ChangeModel, "Model {target} restored"},
	"restoreModels": {ChangeModel, "Models restored: {target}"},

	"importProviderPrices": {ChangeModel, "Prices of providers imported: {target}"},

	"createPool": {ChangePool, "Pool {name} created"},
	"updatePool": {ChangePool, "Pool {name} changed"},
	"deletePool": {ChangePool, "Pool {name} deleted"},
	"pausePool":  {ChangePool, "Pool {name} paused"},
	"resumePool": {ChangePool, "Pool {name} resumed"},

	"holdEngine":   {ChangePool, "Engine {url} of the pool {name} held"},
	"resumeEngine": {ChangePool, "Engine {url} of the pool {name} resumed"},

	"drainWorker":       {ChangeWorker, "Worker {target} drained"},
	"terminateWorker":   {ChangeWorker, "Worker {target} terminated"},
	"preemptWorker":     {ChangeWorker, "Worker {target} preempted by an operator"},
	"quarantineWorker":  {ChangeWorker, "Host of worker {target} quarantined"},
	"releaseQuarantine": {ChangeWorker, "Host of worker {target} released from quarantine"},

	"pauseQueue":  {ChangeQueue, "{target} lane paused{for model}"},
	"resumeQueue": {ChangeQueue, "{target} lane resumed{for model}"},
	"halt":        {ChangeHalt, "{target} halted"},
	"resume":      {ChangeHalt, "{target} resumed"},

	"createAccount": {ChangeAccount, "Account {name} created"},
	"updateAccount": {ChangeAccount, "Account {name} changed"},
	"setBudget":     {ChangeAccount, "Budget of account {name} set"},
	"removeBudget":  {ChangeAccount, "Budget of account {name} removed"},
	"deleteAccount": {ChangeAccount, "Account {target} closed, to be deleted"},

	"createMember":        {ChangeMember, "Member {email} created"},
	"updateMember":        {ChangeMember, "Member {email} changed"},
	"disableMember":       {ChangeMember, "Member {email} disabled"},
	"enableMember":        {ChangeMember, "Member {email} enabled"},
	"resetMemberPassword": {ChangeMember, "Password of member {email} reset"},

	"createApiKey": {ChangeKey, "Key {name} created"},
	"revokeApiKey": {ChangeKey, "Key {name} revoked"},

	"silenceAlerts": {ChangeAlert, "Alerts {rule} silenced"},
	"endSilence":    {ChangeAlert, "Silence of alerts {rule} ended"},

	"startProcess": {ChangeProcess, "Process {target} started with another version or other settings"},
}

var inBraces = regexp.MustCompile(`\{(for )?(\w+)\}`)

// constants are targets that are names of the API, not of people.
var constants = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*(, [A-Z]+(_[A-Z]+)*)*$`)

// inWords makes SCHEDULES, LEASES readable: "schedules and leases". Other texts stay.
func inWords(target string) string {
	if !constants.MatchString(target) {
		return target
	}
	return strings.ToLower(strings.NewReplacer("_", " ", ", ", " and ").Replace(target))
}

// namesConstants are the kinds of changes whose targets are names of the API.
var namesConstants = []ChangeKind{ChangeQueue, ChangeHalt, ChangeProcess}

// hiddenDetails are values of payloads that the feed leaves out: addresses of people, numbers
// that say nothing, and settings of providers, which may hold a secret.
var hiddenDetails = []string{"address", "bulkOperation", "settings", "id", "prefix"}

// changeOf tells an act of the audit log as a change.
func changeOf(act *access.AuditEntry, names Names) *Change {
	words := changeWords[act.Action]
	payload := readAct(act.Payload)
	c := &Change{ID: string(act.ID), At: act.At, Kind: words.kind, Action: act.Action, Actor: safe(act.Actor), Target: safe(act.Target)}
	c.Title = strings.Join(strings.Fields(inBraces.ReplaceAllStringFunc(words.title, func(word string) string {
		found := inBraces.FindStringSubmatch(word)
		name := found[2]
		if name == "target" {
			if slices.Contains(namesConstants, words.kind) {
				return inWords(c.Target)
			}
			return cmp.Or(safe(names[act.Target]), c.Target)
		}
		for _, in := range []map[string]any{payload.after, payload.all, payload.before} {
			if value, ok := in[name]; ok && value != nil && value != "" {
				if found[1] != "" {
					return " for " + inPlainText(value, nil)
				}
				return inPlainText(value, nil)
			}
		}
		return ""
	})), " ")
	c.Title = upper(c.Title)
	c.Details = payload.lines(names, hiddenDetails, words.title)
	return c
}

// upper begins a sentence.
func upper(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
