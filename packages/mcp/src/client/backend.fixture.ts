import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type FakeHost, fakeContext, fakeHost } from '@gantry/conformance/internal/backend'
import type { JsonObject, Tool } from '@gantry/contract'
import type { Backend, BackendContext, ProgressReport } from '@gantry/core/internal/backends/backend'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import { mcp } from './mcp.ts'
import type { McpOptions } from './settings.ts'

/** A backend that is attached to a host of its own, and what tests want of both. */
export interface Opened extends AsyncDisposable {
  readonly backend: Backend
  readonly host: FakeHost
  discover(): Promise<readonly Tool[]>
  /** Calls by the server's name of a tool, whether it was discovered or not. */
  call(tool: string, args?: JsonObject, context?: Partial<BackendContext>): Promise<McpResult>
}

export interface McpResult {
  readonly content: readonly { readonly type: string; readonly text?: string; readonly data?: string }[]
  readonly structuredContent?: unknown
  readonly isError?: boolean
}

export function open(options: Omit<McpOptions, 'name'>, secrets: { readonly [name: string]: string } = {}): Opened {
  const egress = createEgressGuard()
  const host = fakeHost(egress, secrets)
  const backend = mcp({ name: 'test', ...options })
  backend.attach?.(host)
  return {
    backend,
    host,
    async discover() {
      await backend.discover?.(AbortSignal.timeout(20_000))
      return host.published.at(-1) ?? []
    },
    async call(name, args = {}, context = {}) {
      const tool = toolNamed(name)
      const [binding = { kind: 'mcp' }] = tool.backends
      const whole = { ...fakeContext(AbortSignal.timeout(20_000)), ...context }
      return (await backend.call({ id: `test:${name}:1.0.0`, tool, args, binding }, whole)) as McpResult
    },
    async [Symbol.asyncDispose]() {
      await backend.close?.(AbortSignal.timeout(10_000))
      await egress.close()
    },
  }
}

export function toolNamed(name: string): Tool {
  return {
    namespace: 'test',
    name,
    version: '1.0.0',
    description: 'A tool.',
    inputSchema: { type: 'object' },
    effect: 'once',
    backends: [{ kind: 'mcp', name: 'test' }],
  }
}

/** The hand-made server, behaving as the mode says. */
export function raw(mode: string): readonly string[] {
  return [process.execPath, join(import.meta.dirname, 'raw-server.fixture.ts'), mode]
}

/** A published server of the protocol's authors. */
export function published(name: string, ...args: readonly string[]): readonly string[] {
  const root = join(import.meta.dirname, '../../../..')
  return [process.execPath, join(root, 'node_modules', '@modelcontextprotocol', name, 'dist', 'index.js'), ...args]
}

/** Resolves when a condition holds that something else brings about; the test's own time limit ends it. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** Gone, or dead and only waiting for its parent to notice. */
export function isGone(pid: number): boolean {
  try {
    return /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return true
  }
}

/** Tries until it works; the test's own time limit ends it. */
export async function eventually(work: () => Promise<unknown>): Promise<void> {
  for (let worked = false; !worked; ) {
    worked = await work().then(
      () => true,
      () => false,
    )
    if (!worked) await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Progress reports that a context collects. */
export function progressInto(reports: ProgressReport[]): Pick<BackendContext, 'progress'> {
  return { progress: (report) => void reports.push(typeof report === 'number' ? { progress: report } : report) }
}
