import type { CatalogEntry, Executor } from '@gantry/core'
import type { Caller, ListedTool } from './caller.ts'
import type { Io } from './io.ts'
import { type Progress, progressText } from './progress.ts'
import { safeLine } from './terminal.ts'

/** An executor in this process as a caller. */
export function localCaller(gantry: Executor, io: Io): Caller {
  return {
    stream: (tool, args, settings) => gantry.stream(tool, args, settings),
    async chain(steps, { progress, ...settings }) {
      const stopWatching = watch(gantry, progress)
      try {
        return await gantry.chain(steps, { ...settings, onStep: ({ id, state }) => progress.show(`${id} ${state}`) })
      } finally {
        stopWatching()
      }
    },
    async tools(query) {
      await warnOfSources(gantry, io)
      const { items, cursor } = gantry.tools(query)
      return { items: items.map(listedTool), ...(cursor === undefined ? {} : { cursor }) }
    },
    search: (words, filter, signal) => gantry.search(words, { ...filter, signal }),
    describe: (tool, how) => gantry.describe(tool, how),
  }
}

/** Waits for the tools of every backend; those that could not be asked are named on stderr. */
export async function warnOfSources(gantry: Executor, io: Io): Promise<void> {
  for (const { error } of await gantry.ready({ signal: io.signal })) io.err(`warning: ${safeLine(error.message)}\n`)
}

/** Shows the calls of all steps while they run; returns the function that ends it. */
function watch(gantry: Executor, progress: Progress): () => void {
  const started = gantry.on('call:started', ({ tool }) => progress.show(`${tool} …`))
  const reported = gantry.on('call:reported', ({ tool, report }) => {
    if (report.kind === 'progress') progress.show(`${tool} ${progressText(report)}`)
    else progress.report(report)
  })
  return () => {
    started()
    reported()
  }
}

function listedTool({ key, tool, digest }: CatalogEntry): ListedTool {
  const { version, title, description, tags = [], effect, deprecated } = tool
  return {
    id: key,
    version,
    ...(title === undefined ? {} : { title }),
    description,
    tags,
    effect,
    ...(deprecated === undefined ? {} : { deprecated }),
    digest,
  }
}
