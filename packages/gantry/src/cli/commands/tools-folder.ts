import { ToolError } from '@gantry/contract'
import { reportOf } from '@gantry/service/internal/config/check-config'
import { loadConfig } from '@gantry/service/internal/config/load'
import { refusalText } from '@gantry/service/internal/config/tools-folder'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** Loads the folder of tools as every command does, and says what became of it; it fails when something was refused. */
export const execute: Command = async ({ options }, io) => {
  const { environment, folder, signal } = io
  const named = options.config === undefined ? {} : { file: options.config }
  const { toolsFolder } = await loadConfig({ environment, folder, signal, ...named })
  if (toolsFolder === undefined) {
    throw new ToolError('CONFIG_INVALID', 'No folder of tools is configured; name one with the key toolsFolder.')
  }
  const report = reportOf(toolsFolder)
  if (options.json === true) await printJson(report, io)
  else {
    const loaded = report.loaded.flatMap(({ file, tools }) => tools.map((tool) => `${tool} from ${file}`))
    const lines = [...loaded, ...report.refused.map(refusalText)]
    await io.out(lines.map((line) => `${safeLine(line)}\n`).join('') || `${safeLine(report.path)} holds no tools.\n`)
  }
  return report.refused.length === 0 ? 0 : 1
}
