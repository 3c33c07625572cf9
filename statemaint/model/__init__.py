"""The parts of a checkpoint. Pure: no bytes are parsed here (`codec`), nothing decided (`plan`)."""
