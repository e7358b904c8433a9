// Package fleet has the commands about what serves jobs: workers, pools, queues and models.
package fleet
