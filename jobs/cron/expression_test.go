package cron

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models/schedules"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDescriptions(t *testing.T) {
	t.Parallel()

	for text, words := range map[string]string{
		"0 9 * * MON-FRI":       "every weekday at 09:00",
		"30 8,17 * * *":         "every day at 08:30 and 17:30",
		"* * * * *":             "every minute",
		"*/5 * * * *":           "every 5 minutes",
		"*/20 * * * * *":        "every 20 seconds",
		"15 0 9 * * *":          "every day at 09:00:15",
		"@hourly":               "every hour",
		"0 */6 * * *":           "every day at 00:00, 06:00, 12:00 and 18:00",
		"0 */2 * * *":           "every 2 hours",
		"@daily":                "every day at 00:00",
		"@weekly":               "every Sunday at 00:00",
		"@monthly":              "day 1 of the month at 00:00",
		"@yearly":               "day 1 of the month in January at 00:00",
		"0 0 1,15 * *":          "days 1 and 15 of the month at 00:00",
		"0 0 L * *":             "the last day of the month at 00:00",
		"0 0 LW * *":            "the last weekday of the month at 00:00",
		"0 0 L-3 * *":           "3 days before the last of the month at 00:00",
		"0 0 15W * *":           "the weekday nearest to day 15 of the month at 00:00",
		"0 10 * * MON#2":        "the second Monday of the month at 10:00",
		"0 10 * * FRIL":         "the last Friday of the month at 10:00",
		"0 10 * * 5L":           "the last Friday of the month at 10:00",
		"0 10 * * 6,0":          "every Saturday and Sunday at 10:00",
		"0 10 * * 7":            "every Sunday at 10:00",
		"0 0 13 * FRI":          "day 13 of the month or every Friday at 00:00",
		"0 12 * JUN-AUG TUE":    "every Tuesday in June to August at 12:00",
		"*/10 9-17 * * 1-5":     "every 10 minutes, from 09:00 until 18:00, every weekday",
		"5 * * * *":             "in minute 5 of every hour",
		"5,35 22-2 * * *":       "in minutes 5 and 35 of the hour, in the hours 0 to 2, 22 and 23",
		"0 9-17 * * *":          "on the hour, from 09:00 to 17:00",
		"0 0 * 2 *":             "every day in February at 00:00",
		"0 8 * * MON,WED,FRI":   "every Monday, Wednesday and Friday at 08:00",
		"59-0 * * * *":          "in minutes 0 and 59 of every hour",
		"*/45 * * * *":          "in minutes 0 and 45 of every hour",
		"*/59 * * * *":          "in minutes 0 and 59 of every hour",
		"*/7 * * * *":           "in minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
		"0 */5 * * *":           "on the hour, in the hours 0, 5, 10, 15 and 20",
		"7 */6 * * *":           "every day at 00:07, 06:07, 12:07 and 18:07",
		"7,9 */6 * * *":         "in minutes 7 and 9 of the hour, in every 6th hour from 00:00",
		"*/45 * * * * *":        "in seconds 0 and 45 of every minute",
		"30 */10 * * * *":       "in second 30 of the minute, every 10 minutes",
		"0 9 * * SAT-TUE/2":     "every Monday and Saturday at 09:00",
		"0 9 * * FRI-MON/2":     "every Friday and Sunday at 09:00",
		"0 9 * * thu":           "every Thursday at 09:00",
		"0 9 * * THU":           "every Thursday at 09:00",
		"0 9 * * MON-THU":       "every Monday to Thursday at 09:00",
		"0 9 * * TUE,THU":       "every Tuesday and Thursday at 09:00",
		"0 9 * * thuL":          "the last Thursday of the month at 09:00",
		"0 9 * MAR Thu#1":       "the first Thursday of the month in March at 09:00",
		"0 9 1-31 * MON":        "every day at 09:00",
		"0 9 13 * 0-6":          "every day at 09:00",
		"0 9 */2 * MON":         "days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month or every Monday at 09:00",
		"5/15 * * * *":          "in minutes 5, 20, 35 and 50 of every hour",
		"@DAILY":                "every day at 00:00",
		"\t05  009\t* * 7,07,0": "every Sunday at 09:05",
	} {
		expression, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, words, expression.Describe(), text)
		assert.Equal(t, text, expression.String())
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	expression, err := Parse("0 9 * * 1-5")
	require.NoError(t, err)
	assert.Equal(t, "every weekday at 09:00, Europe/Berlin", Times{Expression: expression, Zone: berlin}.Describe())
	for every, words := range map[time.Duration]string{time.Second: "every second", 90 * time.Second: "every 90 seconds",
		time.Hour: "every hour", 48 * time.Hour: "every 2 days"} {
		assert.Equal(t, words, Times{Every: every}.Describe())
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()

	for text, message := range map[string]string{
		"":                                "it is empty",
		"   ":                             "it is empty",
		"* * *":                           "it has 3 fields",
		"* * * * * * *":                   "it has 7 fields",
		"61 * * * *":                      `the minute "61" is not allowed: it takes 0-59`,
		"0 25 * * *":                      `the hour "25" is not allowed`,
		"0 0 32 * *":                      `the day of the month "32" is not allowed`,
		"0 0 * 13 *":                      `the month "13" is not allowed`,
		"0 0 * * FUN":                     `the day of the week "FUN" is not allowed`,
		"0 0 * * MON#6":                   `the day of the week "MON#6" is not allowed`,
		"*/0 * * * *":                     `the minute "*/0" is not allowed`,
		"*/60 * * * *":                    "a step of 60 is more than the field has, so that it would match 0 only: write 0 in its place",
		"0 */24 * * *":                    "a step of 24 is more than the field has, so that it would match 0 only: write 0 in its place",
		"15/60 * * * *":                   "it would match 15 only: write 15 in its place",
		"0 0 * * */8":                     "write 0 in its place",
		"0 0 */32 * *":                    "write 1 in its place",
		"0 0 * * HOU":                     `the day of the week "HOU" is not allowed`,
		"0 0 * JANUARY *":                 "is not allowed",
		"*/ * * * *":                      "is not allowed",
		"/5 * * * *":                      "is not allowed",
		"*/5/2 * * * *":                   "is not allowed",
		"1-2-3 * * * *":                   "is not allowed",
		"-5 * * * *":                      "is not allowed",
		"+5 * * * *":                      "is not allowed",
		"5- * * * *":                      "is not allowed",
		"*-5 * * * *":                     "is not allowed",
		"1.5 * * * *":                     "is not allowed",
		"99999999999999999999 * * * *":    "is not allowed",
		"*/99999999999999999999 * * * *":  "is not allowed",
		"0 0 L/2 * *":                     "is not allowed",
		"0 0 L-31 * *":                    "is not allowed",
		"0 0 0W * *":                      "is not allowed",
		"0 0 * * 1#0":                     "is not allowed",
		"0 0 * * 8":                       "is not allowed",
		"0 0 ٣ * *":                       "is not allowed",
		"@reboot":                         "is not a macro",
		"0 0 * * * * 2030":                "it has 7 fields",
		"H * * * *":                       `the minute "H" is not allowed`,
		"0 0 30 2 *":                      "no day within five years matches it",
		"0 0 31 4,6,9,11 *":               "no day within five years matches it",
		"@every 5m":                       "use everySeconds",
		"@fortnightly":                    "is not a macro",
		"@daily 5":                        "is not a macro",
		"CRON_TZ=Europe/Berlin 0 9 * * *": "give the zone in timezone",
		"TZ=UTC 0 9 * * *":                "give the zone in timezone",
		strings.Repeat(",", 1024):         "at most 256 are allowed",
		strings.Repeat(",", 200):          "it has 1 fields",
		", * * * *":                       `the minute "," is not allowed`,
		"0 0 * * 1;DROP":                  "is not allowed",
		"５ * * * *":                       "is not allowed",
	} {
		_, err := Parse(text)
		require.Error(t, err, text)
		assert.ErrorContains(t, err, message, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 9 * * MON-FRI", "*/20 * * * * *", "0 0 L-3 * *", "0 10 * * FRIL", "@daily", "5,35 22-2 * * *",
		"0 0 29 2 *"} {
		f.Add(seed)
	}
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		expression, err := Parse(text)
		if err != nil {
			return
		}
		require.NotEmpty(t, expression.Describe())
		times := Times{Expression: expression, Zone: zone, Gap: schedules.DSTGapShift, Overlap: schedules.DSTOverlapBoth}
		from := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)
		previous := from
		for _, slot := range times.Upcoming(from, 10) {
			require.True(t, slot.After(previous), "slots rise")
			previous = slot
		}
		require.True(t, previous.After(from), "an accepted expression fires")
	})
}
