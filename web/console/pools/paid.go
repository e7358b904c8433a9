package pools

import (
	"fmt"
	"strings"

	"github.com/reelay/reelay/models"
)

// paidHours is how far back the page says what machines were paid for.
const paidHours = 24

// paidPart is a class of paid time as a part of all of it.
type paidPart struct {
	models.PaidTime
	// Share is its part of the time, 0 to 1, and From the sum of those before it.
	Share, From float64
}

// name is how the page calls the class.
func (p paidPart) name() string { return strings.ToLower(string(p.Class)) }

// meaning says what the class is.
func (p paidPart) meaning() string {
	return map[models.PaidClass]string{
		models.PaidBoot:   "from the creation of a machine until its worker registered",
		models.PaidLoad:   "from a lease until the render began",
		models.PaidIdle:   "without a job",
		models.PaidUseful: "render time that was kept",
		models.PaidWasted: "render time that was lost",
		models.PaidEnding: "from the end of a worker until its machine was gone",
	}[p.Class]
}

// paidParts divides what the pool's machines were paid for. It is empty if they were paid for nothing.
func (v *poolShow) paidParts() (parts []paidPart) {
	total := v.Paid.Total().Seconds
	if total <= 0 {
		return nil
	}
	from := 0.0
	for _, time := range v.Paid.Times() {
		part := paidPart{time, max(time.Seconds, 0) / total, from}
		from += part.Share
		parts = append(parts, part)
	}
	return parts
}

// paidWords says what the picture shows.
func (v *poolShow) paidWords() string {
	total := v.Paid.Total()
	return fmt.Sprintf("In the last %d hours the machines of the pool were paid for %.3g worker hours, %s. %.0f %% of the time rendered what was kept.",
		paidHours, total.Seconds/3600, sum(total.USD), 100*max(v.Paid.Useful.Seconds, 0)/max(total.Seconds, 1))
}

// sum is an amount of money.
func sum(usd float64) string {
	if usd != 0 && usd < 0.1 {
		return fmt.Sprintf("$%.2g", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}
