import type { Executor } from '@gantry/core'
import type { LoadedConfig } from '../config/config.ts'
import { loadConfig } from '../config/load.ts'
import { reading } from '../config/problem.ts'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { safeLine } from './terminal.ts'

/** Opens an executor as configured, lends it to `work`, and closes it whatever happens. */
export async function withExecutor<T>(
  { config }: OptionValues,
  io: Io,
  work: (gantry: Executor, loaded: LoadedConfig) => Promise<T>,
): Promise<T> {
  const { environment, folder, signal } = io
  const loaded = await loadConfig({ environment, folder, signal, ...(config === undefined ? {} : { file: config }) })
  for (const warning of loaded.warnings) io.err(`warning: ${safeLine(warning)}\n`)
  const { builtinTools, createExecutor, demoTools } = await import('@gantry/core')
  const shipped = [...(loaded.builtins ? builtinTools() : []), ...(loaded.demo ? demoTools() : [])]
  const tools = [...shipped, ...(loaded.options.tools ?? [])]
  const gantry = reading(loaded.file, () => createExecutor({ ...loaded.options, tools }))
  gantry.on('tool:quarantined', ({ id }) => {
    io.err(`warning: ${safeLine(id)} changed at its server and may not be called; see gantry tools diff\n`)
  })
  try {
    return await work(gantry, loaded)
  } finally {
    await gantry.close()
  }
}

/** The same, with the tools of every backend there; those that could not be asked are named on stderr. */
export function withSources<T>(
  options: OptionValues,
  io: Io,
  work: (gantry: Executor, loaded: LoadedConfig) => Promise<T>,
): Promise<T> {
  return withExecutor(options, io, async (gantry, loaded) => {
    for (const { error } of await gantry.ready({ signal: io.signal })) io.err(`warning: ${safeLine(error.message)}\n`)
    return work(gantry, loaded)
  })
}
