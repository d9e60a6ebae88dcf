export { filesBackend } from './backends/files.ts'
export { webBackend } from './backends/web.ts'
export { type BuiltinOptions, builtinTools } from './builtin.ts'
export { createExecutor, type ExecutorOptions, openSandboxes } from './create-executor.ts'
export { demoTools } from './demo.ts'
export {
  loadToolsFolder,
  type RefusedTool,
  type ToolsFolder,
  type ToolsFolderMemory,
  type ToolsFolderOptions,
} from './folder.ts'
export type { GrantedCredential, SandboxNetworkOptions } from './sandbox-network.ts'
export type { WebOptions } from './web/binding.ts'
