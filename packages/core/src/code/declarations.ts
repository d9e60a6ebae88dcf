import { type DeclaredTool, takesNothing, toolDeclarations, toolTypes } from '../catalogs/describe.ts'
import { workflowDeclarations } from './workflow/functions.ts'

/** What every program over tools finds, as the compiler is told of it when a program is checked. */
const api = `
type GantryArguments<Id extends keyof GantryTools> =
  GantryTools[Id]['optional'] extends true ? [args?: GantryTools[Id]['args']] : [args: GantryTools[Id]['args']]
interface ThereIsNoSuchTool { readonly ThereIsNoSuchTool: unique symbol }
declare function run<Id extends string>(
  id: string extends Id ? string : Id extends keyof GantryTools ? Id : ThereIsNoSuchTool,
  ...args: Id extends keyof GantryTools ? GantryArguments<Id> : [args?: object]
): Promise<Id extends keyof GantryTools ? GantryTools[Id]['output'] : any>
declare function chain(steps: readonly object[], options?: { input?: unknown }): Promise<any>
declare function search(words: string, options?: { limit?: number }): Promise<any[]>
declare function describe(id: string, options?: { level?: 'summary' | 'types' | 'schema' | 'full' }): Promise<any>
declare function examples(id: string): Promise<any[]>
declare function print(...values: unknown[]): void
declare function sleep(ms: number): Promise<void>
declare const artifacts: {
  put(name: string, content: unknown, options?: { mimeType?: string }): Promise<any>
  get(id: string): Promise<any>
}
declare class ToolError extends Error { code: string; retryable: boolean; details?: any }
declare const console: { [name in 'log' | 'info' | 'warn' | 'error' | 'debug' | 'trace' | 'dir' | 'table']: (...values: unknown[]) => void }
declare const process: any
declare const crypto: any
declare const require: any
declare const stdin: string
declare const TextEncoder: any
declare const TextDecoder: any
declare function structuredClone<T>(value: T): T
declare function setTimeout(work: (...values: any[]) => void, ms?: number, ...values: unknown[]): number
declare function setInterval(work: (...values: any[]) => void, ms?: number, ...values: unknown[]): number
declare function setImmediate(work: (...values: any[]) => void, ...values: unknown[]): number
declare function clearTimeout(id?: number): void
declare function clearInterval(id?: number): void
declare function clearImmediate(id?: number): void
declare function queueMicrotask(work: () => void): void
`

/** Everything that a program which names these tools may use, and nothing else. */
export function checkedDeclarations(tools: readonly DeclaredTool[], namespaces: readonly string[]): string {
  const rows = tools.map((tool) => {
    const { args, output } = toolTypes(tool, '  ')
    const key = JSON.stringify(`${tool.namespace}:${tool.name}`)
    return `  ${key}: { optional: ${takesNothing(tool)}; args: ${args}; output: ${output} }\n`
  })
  return `interface GantryTools {\n${rows.join('')}}\n${toolDeclarations(tools, namespaces)}${api}${workflowDeclarations}`
}
