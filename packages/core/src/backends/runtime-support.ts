import type { ProgramMessage } from '../runtimes/runtime.ts'
import type { RuntimesSource } from '../runtimes/runtimes.ts'
import type { Health, ToolContext } from './backend.ts'

/** A piece of what a program wrote, as a chunk of the stream. */
export interface OutputChunk {
  readonly stream: 'stdout' | 'stderr'
  readonly text: string
}

/** Turns what a sandbox calls into what a reader pulls. */
export interface Feed {
  output(stream: 'stdout' | 'stderr', bytes: Uint8Array): void
  message(message: ProgramMessage): void
  end(): void
  /** All that came so far. */
  written(): { readonly stdout: string; readonly stderr: string }
  /** Chunks as they come, until the end. */
  chunks(): AsyncGenerator<OutputChunk, void>
}

/** Pieces wait here for a slow reader; the limits of the sandbox bound how many there can be. */
export function createFeed(context: Pick<ToolContext, 'progress' | 'log'>): Feed {
  const waiting: OutputChunk[] = []
  const all = { stdout: '', stderr: '' }
  const decoders = {
    stdout: new TextDecoder('utf-8', { ignoreBOM: true }),
    stderr: new TextDecoder('utf-8', { ignoreBOM: true }),
  }
  let ended = false
  let wake: (() => void) | undefined
  const push = (stream: 'stdout' | 'stderr', text: string): void => {
    if (text === '') return
    all[stream] += text
    const last = waiting.at(-1)
    if (last?.stream === stream) waiting[waiting.length - 1] = { stream, text: last.text + text }
    else waiting.push({ stream, text })
    wake?.()
  }
  return {
    output: (stream, bytes) => push(stream, decoders[stream].decode(bytes, { stream: true })),
    message(message) {
      if (message.kind === 'log') context.log(message.message)
      else {
        const { kind: _kind, ...report } = message
        context.progress(report)
      }
    },
    end() {
      ended = true
      for (const stream of ['stdout', 'stderr'] as const) push(stream, decoders[stream].decode())
      wake?.()
    },
    written: () => ({ ...all }),
    async *chunks() {
      while (true) {
        const chunk = waiting.shift()
        if (chunk !== undefined) yield chunk
        else if (ended) return
        else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    },
  }
}

/** Up when a program could run in one of the runtimes; each is started and attacked, once for a process. */
export async function runtimesHealth(runtimes: RuntimesSource, signal: AbortSignal): Promise<Health> {
  const all = await (await runtimes()).list(signal)
  const works = all.some(({ available, isolation }) => available && isolation !== 'none')
  if (works) return { status: 'up' }
  return { status: 'down', message: 'No runtime that isolates works here; `gantry doctor` says why.' }
}
