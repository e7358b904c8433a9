package backlog

// The statements that bun's hooks do not see.
var (
	NextInOrderSQL = nextInOrder.of
	NextJobsSQL    = nextJobs.of
)
