package agent

import (
	"regexp"

	"github.com/reelay/reelay/gpu/runtime"
)

var (
	noMemory = regexp.MustCompile(`(?i)\b(cuda|hip|gpu) out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY`)
	gpuFault = regexp.MustCompile(`(?i)\b(cuda|cudnn|cublas|nccl|hip)\w* error|\b(cudnn|cublas|cusolver)_status_|` +
		`device-side assert|illegal memory access|uncorrectable ECC|\bXid \d+|fallen off the bus`)
)

// diagnose corrects the class of a failure that the runtime reported as TRANSIENT
// although its GPU failed: after such a fault the process must not continue.
func diagnose(failure *runtime.Failure) *runtime.Failure {
	if failure.Class != runtime.Transient {
		return failure
	}
	said := failure.Message + "\n" + failure.Detail
	corrected := *failure
	switch {
	case noMemory.MatchString(said):
		corrected.Class = runtime.OutOfMemory
	case gpuFault.MatchString(said):
		corrected.Class = runtime.ModelCrash
	}
	return &corrected
}
