export { clientOf, createTemporalClient, type TemporalClient, type TemporalTarget } from './connection/connect.ts'
export { createTemporalEngine, type EngineTimes, type TemporalEngine } from './engine/temporal-engine.ts'
export type { ApprovalDecision, AskedApproval } from './protocol/work.ts'
export { createTemporalRuntime } from './runtime/temporal-runtime.ts'
export {
  openTarget,
  openTemporalEngine,
  openTemporalRuntime,
} from './settings.ts'
export type { TemporalRuntimesOptions, TemporalSettings } from './settings-check.ts'
export type { WorkOptions } from './worker/work-activities.ts'
export { createWorkApprovals, type WorkApprovals } from './worker/work-approvals.ts'
export {
  bundleWorkflows,
  startTemporalWorker,
  type TemporalWorker,
  type TemporalWorkerOptions,
} from './worker/worker.ts'
