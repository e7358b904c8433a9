package gce_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/gce"
	"github.com/reelay/reelay/gpu/provider/gce/fakegce"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/compute/v1"
)

func TestCreate(t *testing.T) {
	t.Parallel()

	t.Run("InsertsOneSpotMachine", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t, func(s map[string]any) {
			s["serviceAccount"], s["subnetwork"], s["networkTags"] = "worker@p.iam.gserviceaccount.com", "workers", []string{"reelay"}
			s["weightsDisk"], s["environment"] = "weights", map[string]string{"REELAY_AGENT_RUNTIME": "ltx=python3 /ltx.py"}
			s["metadata"] = map[string]string{"install-nvidia-driver": "True"}
		})

		created := provider.Create(t.Context(), pool, "batch", []string{"video-1"})

		require.Equal(t, []fleet.Created{{ID: "video-1", Zone: zoneA}}, created)
		i := body[compute.Instance](t, server, "instances.insert")
		assert.Equal(t, "SPOT", i.Scheduling.ProvisioningModel)
		assert.Equal(t, "DELETE", i.Scheduling.InstanceTerminationAction)
		assert.Equal(t, int64(120), i.Scheduling.PreemptionNoticeDuration.Seconds)
		assert.Equal(t, int64(24*60*60), i.Scheduling.MaxRunDuration.Seconds)
		assert.Equal(t, map[string]string{"reelay-pool": string(pool.ID), "reelay-cluster": "_50roduction_20_231"}, i.Labels)
		assert.Equal(t, "regions/us-central1/subnetworks/workers", i.NetworkInterfaces[0].Subnetwork)
		assert.Empty(t, i.NetworkInterfaces[0].AccessConfigs)
		assert.Equal(t, "projects/test-project/zones/us-central1-a/disks/weights", i.Disks[1].Source)
		assert.Equal(t, "READ_ONLY", i.Disks[1].Mode)
		values := metadata(i.Metadata)
		assert.Equal(t, enrolmentKey, values["reelay-enrolment-key"])
		assert.Equal(t, "europe-docker.pkg.dev/p/r/agent:1", values["reelay-container"])
		assert.Equal(t, "True", values["install-nvidia-driver"])
		assert.Contains(t, values["startup-script"], "#!/bin/bash")
		assert.Equal(t, "REELAY_AGENT_CAPACITY_CLASS=SPOT\nREELAY_AGENT_GPU_TYPE=L4\nREELAY_AGENT_MODELS=ltx,wan\nREELAY_AGENT_NOTICE=150s\nREELAY_AGENT_POOL="+string(pool.ID)+
			"\nREELAY_AGENT_PROVIDER=gce\nREELAY_AGENT_REGION=us-central1\nREELAY_AGENT_RUNTIME=ltx=python3 /ltx.py\nREELAY_ENDPOINT=https://reelay.example\n",
			values["reelay-environment"])
	})

	t.Run("InsertsOnDemandMachinesWithoutANotice", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t, func(s map[string]any) {
			s["accelerator"], s["reservation"] = map[string]any{"type": "nvidia-tesla-t4"}, "t4"
		})
		pool.CapacityClass, pool.MachineType = models.CapacityOnDemand, "n1-standard-4"
		require.NoError(t, gce.CheckPool(pool))

		require.Equal(t, []fleet.ErrorClass{""}, classes(provider.Create(t.Context(), pool, "batch", []string{"video-1"})))

		i := body[compute.Instance](t, server, "instances.insert")
		assert.Equal(t, "STANDARD", i.Scheduling.ProvisioningModel)
		assert.Nil(t, i.Scheduling.PreemptionNoticeDuration)
		assert.Equal(t, "zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4", i.GuestAccelerators[0].AcceleratorType)
		assert.Equal(t, int64(1), i.GuestAccelerators[0].AcceleratorCount)
		assert.Equal(t, "SPECIFIC_RESERVATION", i.ReservationAffinity.ConsumeReservationType)
		assert.Equal(t, []string{"t4"}, i.ReservationAffinity.Values)
		provider.Create(t.Context(), pool, "two", []string{"video-2", "video-3"})
		bulk := body[compute.BulkInsertInstanceResource](t, server, "instances.bulkInsert")
		assert.Equal(t, i.ReservationAffinity, bulk.InstanceProperties.ReservationAffinity)
	})

	t.Run("TakesTheDefaultNoticeWhereALongerOneIsRefused", func(t *testing.T) {
		t.Parallel()
		for _, ids := range [][]string{{"video-1"}, {"video-1", "video-2"}} {
			server, provider := start(t)
			server.Inject(fakegce.Fault{Status: 400, Reason: "invalid",
				Message: "Invalid value for field 'resource.scheduling.preemptionNoticeDuration'", Method: map[int]string{1: "instances.insert",
					2: "instances.bulkInsert"}[len(ids)]})

			for _, created := range provider.Create(t.Context(), newPool(t), "batch", ids) {
				require.NoError(t, created.Err)
			}

			require.Nil(t, server.Instances()[0].Scheduling.PreemptionNoticeDuration)
		}
	})

	t.Run("InsertsSeveralWithOneCall", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t, func(s map[string]any) { s["weightsImage"] = "projects/test-project/global/images/weights" })

		created := provider.Create(t.Context(), pool, "batch", []string{"video-2", "video-1"})

		require.Equal(t, []fleet.Created{{ID: "video-2", Zone: zoneA}, {ID: "video-1", Zone: zoneA}}, created)
		require.Len(t, server.Calls("instances.bulkInsert"), 1)
		require.Empty(t, server.Calls("instances.insert"))
		require.Equal(t, []string{zoneA + "/video-1", zoneA + "/video-2"}, places(server))
		provider.Create(t.Context(), pool, "one more", []string{"video-3"})
		bulk, one := body[compute.BulkInsertInstanceResource](t, server, "instances.bulkInsert").InstanceProperties,
			body[compute.Instance](t, server, "instances.insert")
		require.Equal(t, one.Scheduling, bulk.Scheduling, "the model, the notice, and the longest life")
		require.Equal(t, one.Labels, bulk.Labels)
		require.Equal(t, metadata(one.Metadata), metadata(bulk.Metadata))
		require.Equal(t, "projects/test-project/global/images/weights", bulk.Disks[1].InitializeParams.SourceImage)
		require.True(t, bulk.Disks[1].AutoDelete)
		require.Equal(t, "/dev/disk/by-id/google-reelay-weights", metadata(bulk.Metadata)["reelay-weights"])
	})

	t.Run("StartsFromATemplate", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t, func(s map[string]any) {
			delete(s, "image")
			s["template"] = "projects/p/global/instanceTemplates/worker"
		})
		pool.MachineType = ""

		require.Equal(t, []fleet.ErrorClass{""}, classes(provider.Create(t.Context(), pool, "batch", []string{"video-1"})))
		require.Equal(t, []fleet.ErrorClass{"", ""}, classes(provider.Create(t.Context(), pool, "batch", []string{"video-2", "video-3"})))

		require.Equal(t, []string{"projects/p/global/instanceTemplates/worker"},
			server.Calls("instances.insert")[0].Query["sourceInstanceTemplate"])
		bulk := body[compute.BulkInsertInstanceResource](t, server, "instances.bulkInsert")
		require.Equal(t, "projects/p/global/instanceTemplates/worker", bulk.SourceInstanceTemplate)
		require.Nil(t, bulk.InstanceProperties.Disks)
	})

	t.Run("IsHarmlessToRepeat", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)

		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		again := provider.Create(t.Context(), pool, "another", []string{"video-1", "video-2"})

		require.Equal(t, []fleet.Created{{ID: "video-1", Zone: zoneA}, {ID: "video-2", Zone: zoneA}}, again)
		require.Len(t, server.Instances(), 2)
	})
}

func TestCreateZones(t *testing.T) {
	t.Parallel()

	t.Run("TriesTheNextZoneAfterAStockout", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		server.Limit(zoneA, 0)
		pool := newPool(t)

		created := provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		require.Equal(t, []fleet.Created{{ID: "video-1", Zone: zoneB}}, created)

		provider.Create(t.Context(), pool, "next", []string{"video-2"})
		require.Len(t, server.Calls("instances.insert"), 3, "the zone without machines comes last for a while")
	})

	t.Run("TriesTheRecommendedZoneFirst", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		server.Limit(zoneA, 0)
		server.Limit(zoneB, 0)

		created := provider.Create(t.Context(), newPool(t), "batch", []string{"video-1", "video-2"})

		require.Equal(t, []fleet.Created{{ID: "video-1", Zone: zoneC}, {ID: "video-2", Zone: zoneC}}, created)
		require.Len(t, server.Calls("instances.bulkInsert"), 2)
	})

	t.Run("SpreadsABatchOverZones", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		server.Limit(zoneA, 2)
		server.Limit(zoneB, 0)

		created := provider.Create(t.Context(), newPool(t), "batch", []string{"video-1", "video-2", "video-3", "video-4"})

		require.Equal(t, []fleet.ErrorClass{"", "", "", ""}, classes(created))
		require.Equal(t, []string{zoneA + "/video-1", zoneA + "/video-2", zoneC + "/video-3", zoneC + "/video-4"}, places(server))
	})

	t.Run("SaysWhichZonesHaveMachines", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		for _, zone := range []string{zoneA, zoneB, zoneC} {
			server.Limit(zone, 0)
		}

		created := provider.Create(t.Context(), newPool(t), "batch", []string{"video-1"})

		require.Equal(t, []fleet.ErrorClass{fleet.Stockout}, classes(created))
		var refused *fleet.ProviderError
		require.ErrorAs(t, created[0].Err, &refused)
		require.Equal(t, []string{"europe-west4-a"}, refused.ZonesAvailable)
		require.ErrorContains(t, created[0].Err, "does not have enough resources")
		require.Empty(t, server.Instances())
	})

	t.Run("FindsInstancesInOtherZones", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		pool := newPool(t)
		pool.Zones = []string{zoneB}
		provider.Create(t.Context(), pool, "batch", []string{"video-1"})
		pool.Zones = []string{zoneA, zoneB}

		again := provider.Create(t.Context(), pool, "another", []string{"video-1"})

		require.Equal(t, []fleet.Created{{ID: "video-1", Zone: zoneB}}, again)
		require.Len(t, server.Instances(), 1)
	})
}

func TestCreateErrors(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		fault fakegce.Fault
		class fleet.ErrorClass
		calls int // of insert
	}{
		"AnOperationOverQuota": {fakegce.QuotaExceeded(), fleet.Quota, 1},
		"ACallOverQuota":       {fakegce.Fault{Status: 403, Reason: "quotaExceeded", Times: -1}, fleet.Quota, 1},
		"TooManyCalls":         {fakegce.Fault{Status: 403, Reason: "rateLimitExceeded", Times: -1}, fleet.Transient, 3},
		"TooManyRequests":      {fakegce.Fault{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", Times: -1}, fleet.Transient, 3},
		"Forbidden": {fakegce.Fault{Status: 403, Reason: "forbidden", Message: "Required 'compute.instances.create' permission"},
			fleet.Permission, 1},
		"Unauthorized": {fakegce.Fault{Status: 401, Reason: "authError"}, fleet.Permission, 1},
		"AFullReservation": {fakegce.Fault{Status: 400, Reason: "invalid", Times: -1,
			Message: "Specified reservation [l4] does not have available resources for the request."}, fleet.Stockout, 1},
		"ABadRequest":         {fakegce.Fault{Status: 400, Reason: "invalid"}, fleet.Invalid, 1},
		"AMissingImage":       {fakegce.Fault{Status: 404, Reason: "notFound"}, fleet.Invalid, 1},
		"AnOutage":            {fakegce.Fault{Status: 503, Reason: "backendError", Times: -1}, fleet.Transient, 3},
		"ABadOperation":       {fakegce.Fault{Code: "RESOURCE_NOT_FOUND", OperationStatus: 404}, fleet.Invalid, 1},
		"AForbiddenOperation": {fakegce.Fault{Code: "PERMISSIONS_ERROR", OperationStatus: 403}, fleet.Permission, 1},
		"AnUnknownOperation":  {fakegce.Fault{Code: "SOMETHING_NEW", OperationStatus: 500}, fleet.Transient, 1},
		"PreemptedAtOnce": {fakegce.Fault{Code: "INTERNAL_ERROR", Message: "Instance failed to start due to preemption."}, fleet.Stockout,
			1},
		"AnOutageThatEnds": {fakegce.Fault{Status: 500, Reason: "backendError", Times: 2}, "", 3},
		"ALostAnswer":      {fakegce.Fault{Lost: true}, "", 2},
		"AHangingCall":     {fakegce.Fault{Hang: true}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, provider := start(t, func(c *gce.Config) { c.CallTimeout = 2 * time.Second })
			pool := newPool(t)
			pool.Zones = []string{zoneA}
			c.fault.Method = "instances.insert"
			server.Inject(c.fault)

			created := provider.Create(t.Context(), pool, "batch", []string{"video-1"})

			require.Equal(t, []fleet.ErrorClass{c.class}, classes(created), created[0].Err)
			require.Len(t, server.Calls("instances.insert"), c.calls)
			if c.class == "" {
				require.Equal(t, []string{zoneA + "/video-1"}, places(server))
				return
			}
			require.Empty(t, server.Instances())
			require.ErrorContains(t, created[0].Err, "create instance video-1 in us-central1-a: ")
		})
	}

	t.Run("RepeatsUnderTheSameRequestID", func(t *testing.T) {
		t.Parallel()
		for _, ids := range [][]string{{"video-1"}, {"video-1", "video-2"}} {
			server, provider := start(t)
			method := map[int]string{1: "instances.insert", 2: "instances.bulkInsert"}[len(ids)]
			server.Inject(fakegce.Fault{Method: method, Lost: true})

			created := provider.Create(t.Context(), newPool(t), "batch", ids)

			require.Equal(t, make([]fleet.ErrorClass, len(ids)), classes(created))
			require.Len(t, server.Instances(), len(ids))
			calls := server.Calls(method)
			require.Len(t, calls, 2)
			require.NotEmpty(t, calls[0].Query["requestId"])
			require.Equal(t, calls[0].Query["requestId"], calls[1].Query["requestId"])
		}
	})

	t.Run("AnInstanceOfAnotherPool", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		provider.Create(t.Context(), newPool(t), "batch", []string{"video-1"})

		created := provider.Create(t.Context(), newPool(t), "another", []string{"video-1", "video-2"})

		require.Equal(t, []fleet.ErrorClass{fleet.Invalid, ""}, classes(created))
		require.Len(t, server.Instances(), 2)
	})

	t.Run("ABatchThatFails", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t)
		server.Inject(fakegce.Fault{Method: "instances.bulkInsert", Status: http.StatusForbidden, Reason: "forbidden"})

		created := provider.Create(t.Context(), newPool(t), "batch", []string{"video-1", "Video_2", "video-3"})

		require.Equal(t, []fleet.ErrorClass{fleet.Permission, fleet.Invalid, fleet.Permission}, classes(created))
	})

	t.Run("AKeyThatCannotBeRead", func(t *testing.T) {
		t.Parallel()
		server, provider := start(t, func(c *gce.Config) { c.Enrolment.KeyFile = t.TempDir() + "/missing" })

		created := provider.Create(t.Context(), newPool(t), "batch", []string{"video-1"})

		require.Equal(t, []fleet.ErrorClass{fleet.Permission}, classes(created))
		require.ErrorContains(t, created[0].Err, "REELAY_AGENT_KEY_FILE")
		require.Empty(t, server.Calls("instances.insert"))
	})
}

func TestLabel(t *testing.T) {
	t.Parallel()

	for text, label := range map[string]string{
		"pool-1":                   "pool-1",
		"A b_c":                    "_41_20b_5fc",
		"":                         "",
		string(models.PoolID("é")): "_c3_a9",
	} {
		require.Equal(t, label, gce.Label(text))
	}
	long := gce.Label(uuid.NewString() + uuid.NewString())
	require.LessOrEqual(t, len(long), 63)
	require.NotEqual(t, long, gce.Label(uuid.NewString()+uuid.NewString()))
}
