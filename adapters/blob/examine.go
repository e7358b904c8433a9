package blob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/reelay/reelay/features/doctor"
)

var _ doctor.Examiner = (*Store)(nil)

// policy is what a bucket does to objects by itself.
type policy struct {
	// versions reports whether a deleted object remains as an old version, without end.
	versions bool
	// deletes describes the rules that delete current objects, such as "after 30 days".
	deletes []string
	// archives describes the rules that move objects where they cannot be read at once.
	archives []string
}

// errNoPolicy means that these keys may not read what the bucket does by itself.
var errNoPolicy = errors.New("the bucket's policy may not be read")

// Examine checks what the buckets enforce, and what they do to objects by themselves.
func (s *Store) Examine(ctx context.Context) []doctor.Finding {
	var found []doctor.Finding
	for _, store := range s.all() {
		if store.place.Kind == KindS3 {
			found = append(found, store.examineTerms(ctx))
		}
		found = append(found, store.examinePolicy(ctx))
	}
	return found
}

func (s *Store) examineTerms(ctx context.Context) doctor.Finding {
	const holds = "The bucket enforces the terms of links, and keeps checksums."
	const matters = "Uploads pass through the API, which checks them itself: the API needs the bandwidth of all workers."
	proof, err := s.prove(ctx)
	if err != nil {
		return doctor.Advise("bucket-links", holds, "It could not be tried: "+strings.TrimRight(err.Error(), ".\n")+".", matters,
			"Correct what the error says. The finding probe says whether the bucket can be used at all.")
	}
	var lacks []string
	for _, term := range proof.Lacks {
		lacks = append(lacks, "does not enforce that a link stores "+term)
	}
	if !proof.Checksums {
		lacks = append(lacks, "keeps no CRC32C")
	}
	if !proof.Ranges {
		lacks = append(lacks, "serves no ranges of objects, so that players cannot seek")
	}
	text := ""
	if len(lacks) > 0 {
		text = fmt.Sprintf("The bucket %s %s.", s.place.Bucket, strings.Join(lacks, ", and "))
	}
	return doctor.Advise("bucket-links", holds, text, matters,
		"Use a newer release of the store, or leave it: it is safe. `links=api` in REELAY_STORE does the same for downloads.")
}

func (s *Store) examinePolicy(ctx context.Context) doctor.Finding {
	const holds = "The bucket neither deletes nor archives objects by itself, nor keeps deleted ones."
	p, err := s.backend.policy(ctx, s.own)
	var says []string
	switch {
	case errors.Is(err, errNoPolicy): // the least rights do not include it
	case err != nil:
		says = append(says, "could not be asked: "+strings.TrimRight(err.Error(), ".\n"))
	default:
		for _, rule := range p.deletes {
			says = append(says, "deletes objects "+rule)
		}
		for _, rule := range p.archives {
			says = append(says, "archives objects "+rule)
		}
		if p.versions {
			says = append(says, "keeps old versions of deleted objects without end")
		}
	}
	text := ""
	if len(says) > 0 {
		text = fmt.Sprintf("The bucket %s %s.", s.place.Bucket, strings.Join(says, ", and "))
	}
	return doctor.Advise("bucket-policy", holds, text,
		"A video or checkpoint that the bucket deletes is missing though its row names it; old versions cost money after their time and keep "+
			"what a customer deleted.",
		"Reelay deletes objects itself (REELAY_RETENTION_…): remove rules that delete or archive, or restrict them to other folders, and add "+
			"one that deletes noncurrent versions after a day.")
}

// concerns reports whether a rule for keys with a prefix is about objects with one of these beginnings.
func concerns(prefix string, own []string) bool {
	return slices.ContainsFunc(own, func(folder string) bool {
		return strings.HasPrefix(folder, prefix) || strings.HasPrefix(prefix, folder)
	})
}

func (b *s3Bucket) policy(ctx context.Context, own []string) (policy, error) {
	var p policy
	versioning, err := b.core.GetBucketVersioning(ctx, b.name)
	if err != nil && !s3Unknown(err) {
		return p, b.explain(ctx, err)
	}
	p.versions = versioning.Enabled()
	rules, err := b.core.GetBucketLifecycle(ctx, b.name)
	if err != nil {
		if s3Unknown(err) {
			return p, nil
		}
		return p, b.explain(ctx, err)
	}
	for _, rule := range rules.Rules {
		prefix := rule.RuleFilter.Prefix
		if prefix == "" {
			prefix = rule.RuleFilter.And.Prefix
		}
		if prefix == "" {
			prefix = rule.Prefix
		}
		if rule.Status != "Enabled" || !concerns(prefix, own) {
			continue
		}
		if !rule.Expiration.IsNull() {
			p.deletes = append(p.deletes, s3When(rule.Expiration.IsDaysNull(), int(rule.Expiration.Days)))
		}
		if slices.Contains(archives, rule.Transition.StorageClass) {
			p.archives = append(p.archives, s3When(rule.Transition.IsDaysNull(), int(rule.Transition.Days)))
		}
		if !rule.NoncurrentVersionExpiration.IsDaysNull() && prefix == "" {
			p.versions = false
		}
	}
	return p, nil
}

// archives are the storage classes whose objects cannot be read at once.
var archives = []string{"GLACIER", "DEEP_ARCHIVE"}

func s3When(byDate bool, days int) string {
	if byDate {
		return "at a date"
	}
	return fmt.Sprintf("after %d days", days)
}

// s3Unknown reports whether the store does not have what was asked for, or does not say.
func s3Unknown(err error) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return false
	}
	switch e.Code {
	case "NoSuchLifecycleConfiguration", "NotImplemented", "MethodNotAllowed", minio.AccessDenied:
		return true
	}
	return e.StatusCode == 404 && e.Code != "NoSuchBucket"
}

func (b *googleBucket) policy(ctx context.Context, own []string) (policy, error) {
	var p policy
	attrs, err := b.once().Attrs(ctx)
	if isStatus(err, 403) {
		return p, errNoPolicy
	}
	if err != nil {
		return p, err
	}
	p.versions = attrs.VersioningEnabled
	for _, rule := range attrs.Lifecycle.Rules {
		if prefixes := rule.Condition.MatchesPrefix; len(prefixes) > 0 &&
			!slices.ContainsFunc(prefixes, func(prefix string) bool { return concerns(prefix, own) }) {
			continue
		}
		when := fmt.Sprintf("after %d days", rule.Condition.AgeInDays)
		old := rule.Condition.NumNewerVersions > 0 || rule.Condition.DaysSinceNoncurrentTime > 0
		switch {
		case rule.Action.Type == "Delete" && old:
			p.versions = false
		case rule.Action.Type == "Delete":
			p.deletes = append(p.deletes, when)
		}
	}
	return p, nil
}
