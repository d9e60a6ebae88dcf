import { createRequire } from 'node:module'
import type { Probe, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { enforced } from './guest/enforced.ts'
import { attack, pythonAttack, threadAttacks } from './guest/self-test.ts'

type Open = (spec: SandboxSpec, signal: AbortSignal) => Promise<Sandbox>

/**
 * Starts QuickJS for real and attacks it. Python is not started for this, which can take seconds: its self-test comes
 * before its first program, and `pythonTested` says whether that has been. What held against all attacks is in `held`, so
 * that the next runtime of the process, which runs the same code, need not try again.
 */
export async function probeThreads(
  open: Open,
  pythonTested: boolean,
  held: Map<string, number>,
  signal: AbortSignal,
): Promise<Probe> {
  const version = versions()
  try {
    const breached = held.has(version) ? [] : await breachesOf(open, signal)
    if (breached.length > 0) return refused(version, breached)
    const attacks = [...threadAttacks, ...(pythonTested ? [pythonAttack] : [])].map(({ name }) => name)
    const startMs = held.get(version) ?? (await fastest(open, signal))
    held.set(version, startMs)
    const languages = ['javascript', 'typescript', ...(pyodideVersion() === undefined ? [] : ['python'])]
    return { available: true, version, startMs, limits: enforced.thread, languages, attacks }
  } catch (error) {
    signal.throwIfAborted()
    const said = error instanceof Error ? error.message : String(error)
    return { available: false, version, reason: `QuickJS does not run here: ${said}`, remedy: 'Install Gantry again.' }
  }
}

async function breachesOf(open: Open, signal: AbortSignal): Promise<string[]> {
  const breached: string[] = []
  for (const each of threadAttacks) {
    const outcome = await attack(each, open, signal)
    if (!each.held(outcome)) breached.push(each.name)
  }
  return breached
}

function refused(version: string, breached: readonly string[]): Probe {
  const reason = `Its self-test failed: a program could ${breached.join(', and ')}.`
  return { available: false, version, reason, remedy: 'Use another runtime, and report this.', breached }
}

async function fastest(open: Open, signal: AbortSignal): Promise<number> {
  const times: number[] = []
  for (let run = 0; run < 3; run++) {
    const begin = performance.now()
    const program = { kind: 'code', language: 'javascript', code: 'return 1' } as const
    await attack({ name: '', language: 'javascript', program, held: () => true }, open, signal)
    times.push(performance.now() - begin)
  }
  return Math.min(...times)
}

function versions(): string {
  const require = createRequire(import.meta.url)
  const { version } = require('@jitl/quickjs-ng-wasmfile-release-sync/package.json') as { version: string }
  const pyodide = pyodideVersion()
  return `quickjs-ng of quickjs-emscripten ${version}${pyodide === undefined ? '' : `, pyodide ${pyodide}`}`
}

function pyodideVersion(): string | undefined {
  try {
    return (createRequire(import.meta.url)('pyodide/package.json') as { version: string }).version
  } catch {
    return undefined
  }
}
