import { checkConfig } from '@gantry/service/internal/config/check-config'
import type { ToolsFolder } from '@gantry/tools'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** Loads the configuration as every command would, and says what is in it. */
export const execute: Command = async ({ options }, io) => {
  const { environment, folder, signal } = io
  const file = options.config === undefined ? {} : { file: options.config }
  const found = await checkConfig({ environment, folder, signal, ...file })
  for (const warning of found.warnings) io.err(`warning: ${safeLine(warning)}\n`)
  if (options.json === true) await printJson(found, io)
  else {
    const limits = Object.entries(found.limits).map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    const rows = [
      ['file', found.file ?? 'none; the demo tools are there'],
      ['tools', String(found.tools)],
      ...(found.toolsFolder === undefined ? [] : [['tools folder', folderText(found.toolsFolder)]]),
      ...(found.backends.length === 0 ? [] : [['backends', found.backends.join(', ')]]),
      ['policy', found.policy ? 'yes' : 'no'],
      ['limits', limits.length === 0 ? 'the defaults' : limits.join(', ')],
      ['secrets', found.secrets],
    ]
    await io.out(rows.map(([name, value]) => `${safeLine(`${name}: ${value}`)}\n`).join(''))
  }
  return 0
}

function folderText({ path, loaded, refused }: Pick<ToolsFolder, 'path' | 'loaded' | 'refused'>): string {
  const tools = loaded.reduce((count, file) => count + file.tools.length, 0)
  return `${path}, ${tools} tools of ${loaded.length} files, ${refused.length} refused`
}
