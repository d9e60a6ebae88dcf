export { gantryOffers, gantrySandbox } from './sandbox-workflows.ts'
export { gantryWork } from './work-workflow.ts'
