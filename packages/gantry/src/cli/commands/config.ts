import { codes, ToolError } from '@gantry/contract'
import type { PackageState } from '@gantry/sandbox/internal/packages/open-layers'
import { reportOf } from '@gantry/service/internal/config/check-config'
import { refusalText } from '@gantry/service/internal/config/compose'
import { type ConfigReport, reportConfig } from '@gantry/service/internal/config/config-report'
import type { ConfigFinding } from '@gantry/service/internal/config/config-secrets'
import { loadConfig } from '@gantry/service/internal/config/load'
import type { ToolsFolder } from '@gantry/tools'
import { errorInfoOf } from '../errors.ts'
import type { Command } from '../io.ts'
import { printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** Reports what is in the configuration, or everything that is wrong with it; exit code 2 when something stops the start. */
export const checkConfigFile: Command = async ({ options }, io) => {
  const { environment, folder, signal } = io
  const file = options.config === undefined ? {} : { file: options.config }
  const found = await reportConfig({ environment, folder, signal, ...file })
  const { problems, warnings, summary } = found
  const error = problems.length === 0 ? undefined : invalid(found)
  for (const problem of problems) io.err(findingText('problem', problem))
  for (const warning of warnings) io.err(findingText('warning', warning))
  if (options.json === true) {
    const { warnings: _texts, ...facts } = summary ?? { file: found.file, warnings }
    await printJson({ ...facts, problems, warnings, ...(error === undefined ? {} : { error: errorInfoOf(error) }) }, io)
  } else if (summary !== undefined) {
    const limits = Object.entries(summary.limits).map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    const rows = [
      ['file', summary.file ?? 'none; the demo tools are there'],
      ['tools', String(summary.tools)],
      ...(summary.toolsFolder === undefined ? [] : [['tools folder', folderText(summary.toolsFolder)]]),
      ...(summary.backends.length === 0 ? [] : [['backends', summary.backends.join(', ')]]),
      ['policy', summary.policy ? 'yes' : 'no'],
      ['limits', limits.length === 0 ? 'the defaults' : limits.join(', ')],
      ['secrets', summary.secrets],
      ...(summary.packages ?? []).map((state) => [`${state.kind} packages`, packagesText(state)] as const),
    ]
    await io.out(rows.map(([name, value]) => `${safeLine(`${name}: ${value}`)}\n`).join(''))
  }
  if (error === undefined) return 0
  io.err(`${safeLine(error.message)}\n`)
  return codes.CONFIG_INVALID.exit
}

function invalid({ file, problems, warnings }: ConfigReport): ToolError {
  const of = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
  const what = file === null ? 'The configuration' : `The configuration ${file}`
  const message = `${what} has ${of(problems.length, 'problem')} and ${of(warnings.length, 'warning')}; Gantry does not start with it.`
  const issues = problems.map(({ path, message: text }) => ({ path, message: text }))
  return new ToolError('CONFIG_INVALID', message, { details: { ...(file === null ? {} : { file }), issues } })
}

function findingText(kind: 'problem' | 'warning', { path, message, remedy }: ConfigFinding): string {
  return `${kind}: ${safeLine(`${path}${path === '' ? '' : ' '}${message}`)}\n  ${safeLine(remedy)}\n`
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
