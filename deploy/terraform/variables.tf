variable "project" {
  description = "The id of the project for the machines."
  type        = string
}

variable "region" {
  description = "The region of the subnetwork. The pools must be in the same region."
  type        = string
}

variable "name" {
  description = "The beginning of all names: lower-case letters, digits and dashes."
  type        = string
  default     = "reelay"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,20}$", var.name))
    error_message = "The name must be up to 21 lower-case letters, digits and dashes, and begin with a letter."
  }
}

variable "cidr" {
  description = "The addresses of the subnetwork."
  type        = string
  default     = "10.80.0.0/20"
}

variable "egress_ports" {
  description = "The TCP ports that workers can reach: the port of your API, and 443 for images and weights."
  type        = list(string)
  default     = ["443"]
}

variable "template" {
  description = "If not null, an instance template is made of these settings. Pools can also describe their machines themselves."
  type = object({
    image        = string
    machine_type = string
    disk_gb      = optional(number, 100)
    disk_type    = optional(string, "pd-balanced")
  })
  default = null
}
