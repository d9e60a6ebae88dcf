/** The image that `gantry runtime build` makes when it is given no flavour. */
export const imageRepository = 'gantry/sandbox'
export const defaultImage = `${imageRepository}:standard`
