import { ToolError } from '@gantry/contract'
import type { PackageState } from '@gantry/sandbox/internal/packages/open-layers'
import { checkConfig, reportOf } from '@gantry/service/internal/config/check-config'
import { refusalText } from '@gantry/service/internal/config/compose'
import { loadConfig } from '@gantry/service/internal/config/load'
import type { ToolsFolder } from '@gantry/tools'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** Loads the configuration as every command would, and reports what is in it. */
export const checkConfigFile: Command = async ({ options }, io) => {
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
      ...(found.packages ?? []).map((state) => [`${state.kind} packages`, packagesText(state)] as const),
    ]
    await io.out(rows.map(([name, value]) => `${safeLine(`${name}: ${value}`)}\n`).join(''))
  }
  return 0
}

function packagesText({ digest, packages, bytes = 0, target }: PackageState): string {
  if (digest === undefined) return 'not usable; see the warning'
  const size = `${packages} packages, ${Math.round(bytes / 1e6)} MB`
  return `${digest.slice(0, 19)}, ${size}${target === undefined ? '' : `, for ${target}`}`
}

function folderText({ path, loaded, refused }: Pick<ToolsFolder, 'path' | 'loaded' | 'refused'>): string {
  const tools = loaded.reduce((count, file) => count + file.tools.length, 0)
  return `${path}, ${tools} tools of ${loaded.length} files, ${refused.length} refused`
}

/** Loads the folder of tools as every command does, and reports on each file; it fails when one was refused. */
export const checkToolsFolder: Command = async ({ options }, io) => {
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
