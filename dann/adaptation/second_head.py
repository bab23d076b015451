import keras

from dann.adaptation.fitting import check_network


def second_head(head: keras.Model | None, label_head: keras.Model, name: str) -> keras.Model:
    """Returns a head that takes and gives what the label head does, with weights of its own.

    Args:
        head: The head that the user gave, or `None` for one built like the label head.
        label_head: The label head.
        name: Name of the argument, and of a head that is built.

    Raises:
        TypeError: If `head` is no Keras model.
        ValueError: If `head` does not fit, or is the label head itself.
    """
    if head is None:
        return type(label_head).from_config({**label_head.get_config(), "name": name})
    wanted = label_head.input_shape, label_head.output_shape
    check_network(name, head)
    if head is label_head:
        raise ValueError(
            f"Argument `{name}` must have weights of its own. Received: the label head itself"
        )
    if (head.input_shape, head.output_shape) != wanted:
        raise ValueError(
            f"Argument `{name}` must take and give what the label head does: input shape "
            f"{wanted[0]}, output shape {wanted[1]}. Received: input shape {head.input_shape}, "
            f"output shape {head.output_shape}"
        )
    return head
