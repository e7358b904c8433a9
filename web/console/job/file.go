package job

import (
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/models"
)

// maxFormFiles is how many files one form may upload.
const maxFormFiles = 20

// fileInput is the name of the file input of a parameter.
func (f field) fileInput() string { return f.Name + ".file" }

// storeFiles stores the files of the form, and enters their ids in the parameters' fields. What is
// wrong with a file is an error of its field. A stored file stays entered if something else is
// wrong, so that it need not be chosen again.
func (c *controller) storeFiles(r *http.Request, p jobs.Principal, form *jobForm) error {
	if r.MultipartForm == nil {
		return nil
	}
	stored := 0
	for _, f := range form.Fields {
		if f.Files == nil {
			continue
		}
		for _, file := range r.MultipartForm.File[f.fileInput()] {
			if stored++; stored > maxFormFiles {
				form.Errors[f.Name] = fmt.Sprintf("A form may upload %d files: upload the others before, and enter their ids.", maxFormFiles)
				return nil
			}
			id, err := c.storeFile(r, p, file)
			var refused *apierror.Error
			if errors.As(err, &refused) {
				form.Errors[f.Name] = refused.Message
				break
			}
			if err != nil {
				return err
			}
			form.enter(f, string(id))
		}
	}
	return nil
}

func (c *controller) storeFile(r *http.Request, p jobs.Principal, file *multipart.FileHeader) (models.ArtifactID, error) {
	in, err := file.Open()
	if err != nil {
		return "", fmt.Errorf("read the file of a form: %w", err)
	}
	defer in.Close()
	stored, err := c.Submitter.Inputs.PutFile(r.Context(), p, file.Header.Get("Content-Type"), in, nil)
	if err != nil {
		return "", err
	}
	return stored.ID, nil
}

// enter puts the id of a file into its field: after the others, if it takes a list.
func (f *jobForm) enter(to field, id string) {
	if before := strings.TrimSpace(f.Values.Get(to.Name)); to.Type == typeList && before != "" {
		id = before + "\n" + id
	}
	f.Values.Set(to.Name, id)
}

// largest is how many bytes a file of the field may have.
func (f field) largest() int {
	if len(f.Files) == 1 && f.Files[0] == string(catalogue.InputImage) {
		return picture.MaxBytes
	}
	return inputs.MaxPutBytes
}

func (f field) filePlaceholder() string {
	if slices.Contains(f.Files, string(catalogue.InputImage)) {
		return "art_…, job_….lastFrame or https://…"
	}
	return "art_… or job_…"
}
