package models

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// An id is kind_uuid in Go and on the wire, so that it explains itself, and a bare UUIDv7 in
// PostgreSQL. There is one type per table.
type (
	AccountID  string
	KeyID      string
	SessionID  string
	JobID      string
	AttemptID  string
	WorkerID   string
	PoolID     string
	ArtifactID string
	TakesID    string

	DeadLetterID string
	BulkID       string
	AuditID      string
	ViewID       string
	MemberID     string
	AlertID      string
	SilenceID    string
	NoticeID     string
	ScheduleID   string
	WorkflowID   string
	BudgetID     string

	WebhookEndpointID string
	WebhookEventID    string
	WebhookDeliveryID string
)

// FencingToken is the random secret of one attempt, a bare UUID. A write with another token is
// refused.
type FencingToken string

const (
	accountKind  = "acc"
	keyKind      = "key"
	sessionKind  = "ses"
	JobKind      = "job"
	attemptKind  = "att"
	workerKind   = "wrk"
	poolKind     = "pol"
	artifactKind = "art"
	takesKind    = "tak"

	deadLetterKind = "dead"
	bulkKind       = "bulk"
	AuditKind      = "aud"
	viewKind       = "view"
	memberKind     = "mem"
	alertKind      = "alr"
	silenceKind    = "sil"
	noticeKind     = "ntc"
	scheduleKind   = "sch"
	workflowKind   = "wfl"
	budgetKind     = "bud"

	webhookEndpointKind = "whk"
	webhookEventKind    = "evt"
	webhookDeliveryKind = "whd"
)

func newID(kind string) string { return kind + "_" + uuid.Must(uuid.NewV7()).String() }

func NewAccountID() AccountID   { return AccountID(newID(accountKind)) }
func NewKeyID() KeyID           { return KeyID(newID(keyKind)) }
func NewSessionID() SessionID   { return SessionID(newID(sessionKind)) }
func NewJobID() JobID           { return JobID(newID(JobKind)) }
func NewAttemptID() AttemptID   { return AttemptID(newID(attemptKind)) }
func NewWorkerID() WorkerID     { return WorkerID(newID(workerKind)) }
func NewPoolID() PoolID         { return PoolID(newID(poolKind)) }
func NewArtifactID() ArtifactID { return ArtifactID(newID(artifactKind)) }
func NewTakesID() TakesID       { return TakesID(newID(takesKind)) }

func NewDeadLetterID() DeadLetterID { return DeadLetterID(newID(deadLetterKind)) }
func NewBulkID() BulkID             { return BulkID(newID(bulkKind)) }
func NewViewID() ViewID             { return ViewID(newID(viewKind)) }
func NewAuditID() AuditID           { return AuditID(newID(AuditKind)) }
func NewMemberID() MemberID         { return MemberID(newID(memberKind)) }
func NewAlertID() AlertID           { return AlertID(newID(alertKind)) }
func NewSilenceID() SilenceID       { return SilenceID(newID(silenceKind)) }
func NewNoticeID() NoticeID         { return NoticeID(newID(noticeKind)) }
func NewScheduleID() ScheduleID     { return ScheduleID(newID(scheduleKind)) }
func NewWorkflowID() WorkflowID     { return WorkflowID(newID(workflowKind)) }
func NewBudgetID() BudgetID         { return BudgetID(newID(budgetKind)) }

// AsJob is an id that no job has.
func (id WorkflowID) AsJob() JobID {
	_, bare, _ := strings.Cut(string(id), "_")
	return JobID(JobKind + "_" + bare)
}

func NewWebhookEndpointID() WebhookEndpointID { return WebhookEndpointID(newID(webhookEndpointKind)) }
func NewWebhookEventID() WebhookEventID       { return WebhookEventID(newID(webhookEventKind)) }
func NewWebhookDeliveryID() WebhookDeliveryID { return WebhookDeliveryID(newID(webhookDeliveryKind)) }

// TakesIDOf returns the id with this UUID.
func TakesIDOf(id uuid.UUID) TakesID { return TakesID(takesKind + "_" + id.String()) }

// NewFencingToken makes a random token.
func NewFencingToken() FencingToken { return FencingToken(uuid.NewString()) }

// IDKind returns the kind in an id from outside ("job", "att", …), or "" if it is not a valid
// id.
func IDKind(s string) string {
	kind, rest, ok := strings.Cut(s, "_")
	if !ok || len(rest) != 36 || uuid.Validate(rest) != nil {
		return ""
	}
	switch kind {
	case accountKind, keyKind, sessionKind, JobKind, attemptKind, workerKind, poolKind, artifactKind, takesKind, deadLetterKind, bulkKind,
		AuditKind, memberKind, viewKind, alertKind, silenceKind, noticeKind, scheduleKind, workflowKind, budgetKind,
		webhookEndpointKind, webhookEventKind, webhookDeliveryKind:
		return kind
	}
	return ""
}

// ValidID reports whether s is a valid id of the given kind.
func ValidID[T ~string](s T, kind string) bool { return IDKind(string(s)) == kind }

// Valid reports whether the id has the right form. An id from outside without it cannot name a
// row.
func (id AccountID) Valid() bool  { return ValidID(id, accountKind) }
func (id KeyID) Valid() bool      { return ValidID(id, keyKind) }
func (id SessionID) Valid() bool  { return ValidID(id, sessionKind) }
func (id JobID) Valid() bool      { return ValidID(id, JobKind) }
func (id AttemptID) Valid() bool  { return ValidID(id, attemptKind) }
func (id WorkerID) Valid() bool   { return ValidID(id, workerKind) }
func (id PoolID) Valid() bool     { return ValidID(id, poolKind) }
func (id ArtifactID) Valid() bool { return ValidID(id, artifactKind) }
func (id TakesID) Valid() bool    { return ValidID(id, takesKind) }

func (id DeadLetterID) Valid() bool { return ValidID(id, deadLetterKind) }
func (id BulkID) Valid() bool       { return ValidID(id, bulkKind) }
func (id ViewID) Valid() bool       { return ValidID(id, viewKind) }
func (id AuditID) Valid() bool      { return ValidID(id, AuditKind) }
func (id MemberID) Valid() bool     { return ValidID(id, memberKind) }
func (id AlertID) Valid() bool      { return ValidID(id, alertKind) }
func (id SilenceID) Valid() bool    { return ValidID(id, silenceKind) }
func (id ScheduleID) Valid() bool   { return ValidID(id, scheduleKind) }
func (id WorkflowID) Valid() bool   { return ValidID(id, workflowKind) }
func (id BudgetID) Valid() bool     { return ValidID(id, budgetKind) }

func (id WebhookEndpointID) Valid() bool { return ValidID(id, webhookEndpointKind) }
func (id WebhookDeliveryID) Valid() bool { return ValidID(id, webhookDeliveryKind) }

// Valid reports whether the token has the right form.
func (t FencingToken) Valid() bool { return len(t) == 36 && uuid.Validate(string(t)) == nil }

// Value implements driver.Valuer. A malformed token becomes NULL, which no attempt has.
func (t FencingToken) Value() (driver.Value, error) {
	if !t.Valid() {
		return nil, nil
	}
	return string(t), nil
}

// UUID returns the id without its kind, as PostgreSQL stores it.
func (id JobID) UUID() string { return strings.TrimPrefix(string(id), JobKind+"_") }

func (id AccountID) Value() (driver.Value, error)  { return idValue(string(id), accountKind) }
func (id KeyID) Value() (driver.Value, error)      { return idValue(string(id), keyKind) }
func (id SessionID) Value() (driver.Value, error)  { return idValue(string(id), sessionKind) }
func (id JobID) Value() (driver.Value, error)      { return idValue(string(id), JobKind) }
func (id AttemptID) Value() (driver.Value, error)  { return idValue(string(id), attemptKind) }
func (id WorkerID) Value() (driver.Value, error)   { return idValue(string(id), workerKind) }
func (id PoolID) Value() (driver.Value, error)     { return idValue(string(id), poolKind) }
func (id ArtifactID) Value() (driver.Value, error) { return idValue(string(id), artifactKind) }
func (id TakesID) Value() (driver.Value, error)    { return idValue(string(id), takesKind) }

func (id DeadLetterID) Value() (driver.Value, error) { return idValue(string(id), deadLetterKind) }
func (id BulkID) Value() (driver.Value, error)       { return idValue(string(id), bulkKind) }
func (id ViewID) Value() (driver.Value, error)       { return idValue(string(id), viewKind) }
func (id AuditID) Value() (driver.Value, error)      { return idValue(string(id), AuditKind) }
func (id MemberID) Value() (driver.Value, error)     { return idValue(string(id), memberKind) }
func (id AlertID) Value() (driver.Value, error)      { return idValue(string(id), alertKind) }
func (id SilenceID) Value() (driver.Value, error)    { return idValue(string(id), silenceKind) }
func (id NoticeID) Value() (driver.Value, error)     { return idValue(string(id), noticeKind) }
func (id ScheduleID) Value() (driver.Value, error)   { return idValue(string(id), scheduleKind) }
func (id WorkflowID) Value() (driver.Value, error)   { return idValue(string(id), workflowKind) }
func (id BudgetID) Value() (driver.Value, error)     { return idValue(string(id), budgetKind) }

func (id WebhookEndpointID) Value() (driver.Value, error) {
	return idValue(string(id), webhookEndpointKind)
}
func (id WebhookEventID) Value() (driver.Value, error) { return idValue(string(id), webhookEventKind) }
func (id WebhookDeliveryID) Value() (driver.Value, error) {
	return idValue(string(id), webhookDeliveryKind)
}

func (id *AccountID) Scan(src any) error  { return scanID((*string)(id), accountKind, src) }
func (id *KeyID) Scan(src any) error      { return scanID((*string)(id), keyKind, src) }
func (id *SessionID) Scan(src any) error  { return scanID((*string)(id), sessionKind, src) }
func (id *JobID) Scan(src any) error      { return scanID((*string)(id), JobKind, src) }
func (id *AttemptID) Scan(src any) error  { return scanID((*string)(id), attemptKind, src) }
func (id *WorkerID) Scan(src any) error   { return scanID((*string)(id), workerKind, src) }
func (id *PoolID) Scan(src any) error     { return scanID((*string)(id), poolKind, src) }
func (id *ArtifactID) Scan(src any) error { return scanID((*string)(id), artifactKind, src) }
func (id *TakesID) Scan(src any) error    { return scanID((*string)(id), takesKind, src) }

func (id *DeadLetterID) Scan(src any) error { return scanID((*string)(id), deadLetterKind, src) }
func (id *BulkID) Scan(src any) error       { return scanID((*string)(id), bulkKind, src) }
func (id *ViewID) Scan(src any) error       { return scanID((*string)(id), viewKind, src) }
func (id *AuditID) Scan(src any) error      { return scanID((*string)(id), AuditKind, src) }
func (id *MemberID) Scan(src any) error     { return scanID((*string)(id), memberKind, src) }
func (id *AlertID) Scan(src any) error      { return scanID((*string)(id), alertKind, src) }
func (id *SilenceID) Scan(src any) error    { return scanID((*string)(id), silenceKind, src) }
func (id *NoticeID) Scan(src any) error     { return scanID((*string)(id), noticeKind, src) }
func (id *ScheduleID) Scan(src any) error   { return scanID((*string)(id), scheduleKind, src) }
func (id *WorkflowID) Scan(src any) error   { return scanID((*string)(id), workflowKind, src) }
func (id *BudgetID) Scan(src any) error     { return scanID((*string)(id), budgetKind, src) }

func (id *WebhookEndpointID) Scan(src any) error {
	return scanID((*string)(id), webhookEndpointKind, src)
}
func (id *WebhookEventID) Scan(src any) error { return scanID((*string)(id), webhookEventKind, src) }
func (id *WebhookDeliveryID) Scan(src any) error {
	return scanID((*string)(id), webhookDeliveryKind, src)
}

func idValue(id, kind string) (driver.Value, error) {
	if id == "" {
		return nil, nil
	}
	if !ValidID(id, kind) {
		return nil, fmt.Errorf("%q is not an id of the kind %s", id, kind)
	}
	return id[len(kind)+1:], nil
}

func scanID(dst *string, kind string, src any) error {
	switch v := src.(type) {
	case nil:
		*dst = ""
	case string:
		*dst = kind + "_" + v
	case []byte:
		*dst = kind + "_" + string(v)
	default:
		return fmt.Errorf("scan an id of the kind %s from %T", kind, src)
	}
	return nil
}
