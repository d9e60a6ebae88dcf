export { importOpenapi } from './import.ts'
export type {
  OpenapiBackend,
  OpenapiImport,
  OpenapiOptions,
  OpenapiReport,
  OpenapiSecret,
  OpenapiWarning,
} from './options.ts'
