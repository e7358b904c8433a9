package change

import (
	"regexp"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestFingerprint(t *testing.T) {
	t.Parallel()
	same := []struct{ name, one, other string }{
		{"Numbers", "NaN at step 12 of 50", "NaN at step 7 of 30"},
		{"SignsAndExponents", "loss is -1.5e-07", "loss is 3"},
		{"Lists", "the tensor has shape [1, 16, 90]", "the tensor has shape [2, 4]"},
		{"Percentages", "stopped at 12.5 %", "stopped at 90%"},
		{"Timings", "no answer within 30s", "no answer within 1m30.25s"},
		{"Units", "no answer for 900 ms", "no answer for 1 second"},
		{"Sizes", "tried to allocate 2.50 GiB", "tried to allocate 512 MiB"},
		{"ClockTimes", "gave up at 2026-11-21T12:16:03.25Z", "gave up at 2027-01-02T00:00:00Z"},
		{"OurIds", "job_019aa1b2-c3d4-7e5f-8abc-deadbeeffeed is gone", "job_01234567-89ab-7cde-8f01-23456789abcd is gone"},
		{"UUIDs", "no object abcdefab-cdef-abcd-efab-cdefabcdefab", "no object 01234567-89ab-7cde-8f01-23456789abcd"},
		{"Hex", "bad digest deadbeefcafe", "bad digest 0123456789abcdef"},
		{"Pointers", "invalid address 0x7f3a00ff", "invalid address 0xdeadbeef"},
		{"Paths", "cannot read /tmp/reelay/ab/c.bin: no such file", "cannot read /var/lib/x/checkpoint_9.bin: no such file"},
		{"RelativePaths", "cannot read ./out/film.mp4", "cannot read ~/films/it.mp4"},
		{"ObjectKeys", "no object jobs/a/b/film.mp4", "no object jobs/c/d/film.mp4"},
		{"URLs", "GET https://a.example/x?y=z: refused", "GET http://b.example:80/w: refused"},
		{"IPv4", "dial tcp 10.0.0.1:443: connection refused", "dial tcp 192.168.17.4:8080: connection refused"},
		{"IPv6", "dial tcp [2001:db8::1]:443: connection refused", "dial tcp [::1]:80: connection refused"},
		{"BareIPv6", "no route to 2001:db8::1 from here", "no route to fe80::a:b2 from here"},
		{"Hosts", "dial tcp gpu.a.internal:443: connection refused", "dial tcp gpu.b.internal:8443: connection refused"},
		{"NumberedNames", "worker7 has gone", "worker12 has gone"},
		{"PlacesInCode", "panic in render.py:112", "panic in render.py:98"},
		{"Space", "out  of\n memory ", "out of memory"},
		{"Case", "CUDA Out Of Memory", "CUDA out of memory"},
	}
	for _, c := range same {
		t.Run("IsTheSameWhatever"+c.name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, Cause(c.one), Cause(c.other))
			require.Equal(t, fingerprint(models.FailModelCrash, "ltx", c.one), fingerprint(models.FailModelCrash, "ltx", c.other))
		})
	}

	differ := []struct{ name, one, other string }{
		{"Words", "CUDA error: out of memory", "CUDA error: illegal memory access"},
		{"WordsWithSlashes", "read and/or write", "read or write"},
		{"WordsOfHexLetters", "the feed faced a fade", "the feed faced a bead"},
		{"NamesWithColons", "std::bad_alloc", "std::logic_error"},
		{"UnitsWithoutNumbers", "no bytes came", "no seconds came"},
		{"HavingAReason", "", "killed"},
	}
	for _, c := range differ {
		t.Run("DiffersFor"+c.name, func(t *testing.T) {
			t.Parallel()

			require.NotEqual(t, fingerprint(models.FailModelCrash, "ltx", c.one), fingerprint(models.FailModelCrash, "ltx", c.other))
		})
	}

	t.Run("ContainsClassAndModel", func(t *testing.T) {
		t.Parallel()

		print := fingerprint(models.FailModelCrash, "ltx", "killed")

		require.NotEqual(t, print, fingerprint(models.FailPoison, "ltx", "killed"))
		require.NotEqual(t, print, fingerprint(models.FailModelCrash, "wan", "killed"))
	})

	t.Run("IsSixteenStableHexadecimalDigits", func(t *testing.T) {
		t.Parallel()

		print := fingerprint(models.FailOutOfMemory, "ltx", "CUDA out of memory: tried to allocate 2 GiB")

		require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{16}$`), print)
		require.Equal(t, "cuda out of memory: tried to allocate #", Cause("CUDA out of memory: tried to allocate 2 GiB"))
	})
}
