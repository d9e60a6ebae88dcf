import { ToolError } from '@gantry/contract'
import { isRuntimes } from '@gantry/core/internal/runtimes/runtimes'
import type { PackageOptions } from '@gantry/sandbox'
import { loadConfig } from '@gantry/service/internal/config/load'
import { openSandboxes, type RuntimeOptions } from '@gantry/tools'
import { unknownName } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { createProgress, printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'
import { barText, buildImage, pruneImages } from './runtime.ts'

/** Builds packages or an image, whichever the operand or the configuration says. */
export const buildRuntime: Command = async (invocation, io) => {
  const { operands, options } = invocation
  const [what] = operands
  if (what !== undefined && what !== 'packages') return buildImage(invocation, io)
  const runtimes = await configuredRuntimes(options, io, what === 'packages')
  return runtimes === undefined ? buildImage(invocation, io) : buildLists(runtimes, options, io)
}

/** Removes packages or images, whichever the operand or the configuration says. */
export const pruneRuntime: Command = async (invocation, io) => {
  const { operands, options } = invocation
  const [what] = operands
  if (what !== undefined && what !== 'packages') {
    throw await unknownName('operand', `${what} cannot be named here; there is packages.`, what, ['packages'])
  }
  const runtimes = await configuredRuntimes(options, io, what === 'packages')
  return runtimes === undefined ? pruneImages(invocation, io) : pruneLists(runtimes, options, io)
}

const engines = ['docker', 'containerd', 'gvisor', 'kata', 'qemu', 'firecracker', 'kubernetes'] as const

/** The options of runtimes; undefined when the command is about images. */
async function configuredRuntimes(
  { config, engine, socket }: OptionValues,
  { environment, folder, signal }: Io,
  isNamed: boolean,
): Promise<RuntimeOptions | undefined> {
  if (!isNamed && (engine !== undefined || socket !== undefined)) return undefined
  const file = config === undefined ? {} : { file: config }
  const { options } = await loadConfig({ environment, folder, signal, ...file })
  const runtimes = options.runtimes === undefined || isRuntimes(options.runtimes) ? {} : options.runtimes
  if (runtimes.python !== undefined || runtimes.node !== undefined) {
    return isNamed || engines.every((kind) => runtimes[kind] === undefined) ? runtimes : undefined
  }
  if (!isNamed) return undefined
  const example = '{"runtimes": {"python": {"packages": ["numpy==2.1.3"]}}}'
  throw new ToolError('CONFIG_INVALID', `No packages are configured. List them as in ${example}.`)
}

async function buildLists(runtimes: RuntimeOptions, options: OptionValues, io: Io): Promise<number> {
  const { configuredKinds, readPackages } = await import('@gantry/sandbox/internal/packages/package-lists')
  const { buildPackages, pythonOfSandboxes } = await import('@gantry/sandbox/internal/packages/build-packages')
  const progress = createProgress(io, options)
  const onProgress = (step: string): void => {
    if (io.watched) progress.show(barText(step))
    else if (options.quiet !== true && !/^(?:choosing|downloading)/.test(step)) io.err(`${safeLine(step)}\n`)
  }
  const built: object[] = []
  for (const kind of configuredKinds(runtimes)) {
    const source = await readPackages(runtimes, kind)
    if (source === undefined) continue
    if (!io.watched && options.quiet !== true) io.err(`${kind}: ${source.list.length} listed\n`)
    const made = await buildPackages(source, {
      update: options.update === true,
      signal: io.signal,
      onProgress,
      pythonTarget: () => askPython(runtimes, pythonOfSandboxes, io.signal),
    }).finally(progress.clear)
    for (const warning of made.warnings) io.err(`warning: ${safeLine(warning)}\n`)
    const { digest, packages, bytes, target } = made.layer
    const facts = { kind, digest: `sha256:${digest}`, packages, bytes, ...(target === undefined ? {} : { target }) }
    built.push({ ...facts, lock: source.lock, built: made.built, locked: made.locked })
    if (options.json === true) continue
    const how = made.built ? 'built' : 'there already'
    const size = `${packages} packages, ${Math.round(bytes / 1e6)} MB`
    await io.out(`${safeLine(`${kind}  sha256:${digest}  ${size}, ${how}; lock ${source.lock}`)}\n`)
  }
  if (options.json === true) await printJson({ items: built }, io)
  return 0
}

type AskPython = typeof import('@gantry/sandbox/internal/packages/build-packages').pythonOfSandboxes

/** The Python of the sandboxes, asked without the packages that are to be built for it. */
async function askPython(runtimes: RuntimeOptions, ask: AskPython, signal: AbortSignal): ReturnType<AskPython> {
  const { rootfs, root, languages } = runtimes
  const sandboxes = await openSandboxes({
    pool: false,
    ...(rootfs === undefined ? {} : { rootfs }),
    ...(root === undefined ? {} : { root }),
    ...(languages === undefined ? {} : { languages }),
  })
  return ask(sandboxes, signal).finally(() => sandboxes.close())
}

async function pruneLists(runtimes: PackageOptions & Pick<RuntimeOptions, 'root'>, options: OptionValues, io: Io) {
  const { prunePackages } = await import('@gantry/sandbox/internal/packages/open-layers')
  const { removed, kept } = await prunePackages(runtimes)
  if (options.json === true) await printJson({ removed, kept }, io)
  else {
    const lines = [
      ...removed.map((name) => `removed packages ${name}`),
      ...kept.map((name) => `kept packages ${name}: a process uses them`),
    ]
    await io.out(lines.length === 0 ? 'Nothing to remove.\n' : `${lines.map(safeLine).join('\n')}\n`)
  }
  return 0
}
