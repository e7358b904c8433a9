package program

import "strings"

// own are the variables of Reelay's own environment, by how they begin: secrets, and what would
// lead a program to Reelay's stores.
var own = []string{"REELAY_", "DATABASE_URL=", "REDIS_URL=", "GCS_BUCKET=", "STORAGE_EMULATOR_HOST=", "PG"}

// Environment returns the variables for a program of an operator: those of this process except
// Reelay's own.
func Environment(all []string) []string {
	var kept []string
next:
	for _, variable := range all {
		for _, prefix := range own {
			if strings.HasPrefix(variable, prefix) {
				continue next
			}
		}
		kept = append(kept, variable)
	}
	return kept
}
