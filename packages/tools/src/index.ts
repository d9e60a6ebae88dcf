export { type BuiltinOptions, builtinTools } from './builtin.ts'
export { createExecutor, type ExecutorOptions, openSandboxes, type RuntimeOptions } from './create-executor.ts'
export { demoTools } from './demo.ts'
export { filesBackend } from './files.ts'
export {
  loadToolsFolder,
  type RefusedTool,
  type ToolsFolder,
  type ToolsFolderMemory,
  type ToolsFolderOptions,
} from './folder.ts'
export { webBackend } from './http-fetch.ts'
export type { GrantedCredential, SandboxNetworkOptions } from './sandbox.ts'
export type { WebOptions } from './web/binding.ts'
